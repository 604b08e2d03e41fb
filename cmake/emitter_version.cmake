# Writes a header with a hash of the emitter's sources.
string(REPLACE "," ";" sources "${SOURCES}")
set(hashes "")
foreach(source IN LISTS sources)
  file(SHA256 "${source}" hash)
  string(APPEND hashes "${hash}")
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING "${hash}" 0 32 hash)
file(WRITE "${OUTPUT}" "#pragma once

namespace tessera::compile {
inline constexpr const char* emitter_version = \"${hash}\";
}
")
