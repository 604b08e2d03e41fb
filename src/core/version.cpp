#include <tessera/version.hpp>

#include "core/version_config.hpp"

namespace tessera {

std::string_view version() noexcept { return TESSERA_VERSION_STRING; }

}  // namespace tessera
