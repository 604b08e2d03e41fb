#pragma once

#include <tessera/buffer.hpp>

#include "engine/memory/storage.hpp"

#include <string_view>

namespace tessera::detail {

// What a buffer's handle points at; Errc::invalid_argument for an empty handle, naming the call.
engine::View& view_of(const Buffer& buffer, std::string_view call);

}  // namespace tessera::detail
