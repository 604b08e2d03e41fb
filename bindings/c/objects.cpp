// What the functions of all kinds of handles use.
#include "objects.hpp"

namespace tessera::c {

std::vector<Buffer> expect_buffers(tessera_buffer* const* buffers, std::size_t count, Call call, const char* name) {
  expect_list(buffers, count, call, name);
  std::vector<Buffer> list;
  list.reserve(count);
  for (std::size_t i = 0; i < count; ++i) list.push_back(*get(buffers[i], call, {name, i}));
  return list;
}

std::uint32_t bits_of(const std::vector<DType>& dtypes) {
  std::uint32_t bits = 0;
  for (const DType dtype : dtypes) bits |= std::uint32_t{1} << static_cast<unsigned>(dtype);
  return bits;
}

}  // namespace tessera::c

using namespace tessera;
using namespace tessera::c;

const char* tessera_version(void) { return version().data(); }

tessera_code tessera_check_version(int major, int minor) {
  // Before 1.0 every minor version may differ.
  if (major == TESSERA_VERSION_MAJOR && minor == TESSERA_VERSION_MINOR) return TESSERA_OK;
  return guarded([&] {
    throw Error(Errc::unsupported, "[tessera_check_version] the program was compiled for version " +
                                       std::to_string(major) + "." + std::to_string(minor) + ", the library is " +
                                       std::string(version()));
  });
}

size_t tessera_live_handles(void) { return live_handles(); }

const char* tessera_dtype_name(tessera_dtype dtype) {
  return dtype < TESSERA_F32 || dtype > TESSERA_U8 ? nullptr : to_string(static_cast<DType>(dtype)).data();
}

tessera_code tessera_dtype_from_name(const char* name, tessera_dtype* dtype) {
  return guarded(__func__, [&](Call call) {
    tessera_dtype& to = result(dtype, call, "dtype");
    to = to_c(dtype_from_string(expect_text(name, call, "name")));
  });
}

size_t tessera_dtype_size(tessera_dtype dtype) {
  return dtype < TESSERA_F32 || dtype > TESSERA_U8 ? 0 : size_of(static_cast<DType>(dtype));
}

const char* tessera_status_name(tessera_status status) {
  if (status < TESSERA_PENDING || status > TESSERA_CANCELLED) return nullptr;
  return to_string(static_cast<Status>(status)).data();
}

const char* tessera_text_data(const tessera_text* text) {
  const char* data = nullptr;
  guarded(__func__, [&](Call call) { data = (*get(text, call, "text"))->c_str(); });
  return data;
}

size_t tessera_text_size(const tessera_text* text) {
  std::size_t size = 0;
  guarded(__func__, [&](Call call) { size = (*get(text, call, "text"))->size(); });
  return size;
}

void tessera_text_release(tessera_text* text) { release_handle(text, Kind::text, __func__); }

tessera_code tessera_trace_start(const char* path) {
  return guarded(__func__, [&](Call call) { trace::start(expect_text(path, call, "path")); });
}

tessera_code tessera_trace_stop(void) {
  return guarded([] { trace::stop(); });
}

int32_t tessera_trace_is_on(void) { return trace::is_on() ? 1 : 0; }
