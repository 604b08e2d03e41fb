#pragma once

#include <tessera/buffer.hpp>

#include "engine/memory/storage.hpp"

#include <string_view>

namespace tessera::detail {

// The view behind a handle. Errc::invalid_argument for an empty handle; the message names `call`.
engine::View& view_of(const Buffer& buffer, std::string_view call);

}  // namespace tessera::detail
