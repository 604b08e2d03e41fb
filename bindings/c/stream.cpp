#include "objects.hpp"

#include <algorithm>
#include <limits>

using namespace tessera;
using namespace tessera::c;

tessera_code tessera_stream_create(tessera_device* device, const tessera_stream_options* options,
                                   tessera_stream** stream) {
  return guarded(__func__, [&](Call call) {
    tessera_stream*& to = result(stream, call, "stream");
    const auto on = get(device, call, "device");
    const tessera_stream_options given = options_or(options, TESSERA_STREAM_OPTIONS, call);
    StreamOptions of;
    of.priority = expect_enum<Priority>(given.priority, 3, call, "priority");
    of.when_full = expect_enum<WhenFull>(given.when_full, 3, call, "when_full");
    of.max_in_flight =
        static_cast<std::size_t>(std::min<std::uint64_t>(given.max_in_flight, std::numeric_limits<std::size_t>::max()));
    of.deadline = nanoseconds(given.deadline_ns);
    of.in_order = given.in_order != 0;
    to = make_handle<tessera_stream>(on->stream(of));
  });
}

void tessera_stream_release(tessera_stream* stream) { release_handle(stream, Kind::stream, __func__); }

tessera_code tessera_stream_in_flight(tessera_stream* stream, size_t* count) {
  return guarded(__func__, [&](Call call) {
    std::size_t& to = result(count, call, "count");
    to = get(stream, call, "stream")->in_flight();
  });
}

tessera_code tessera_stream_synchronize(tessera_stream* stream) {
  return guarded(__func__, [&](Call call) { get(stream, call, "stream")->synchronize(); });
}

tessera_code tessera_stream_device(tessera_stream* stream, tessera_device** device) {
  return guarded(__func__, [&](Call call) {
    tessera_device*& to = result(device, call, "device");
    to = make_handle<tessera_device>(get(stream, call, "stream")->device());
  });
}
