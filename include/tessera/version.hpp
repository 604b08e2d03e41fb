#pragma once

#include <tessera/detail/export.hpp>

#include <string_view>

namespace tessera {

// The version of the loaded library, such as "0.1.0".
TESSERA_API std::string_view version() noexcept;

}  // namespace tessera
