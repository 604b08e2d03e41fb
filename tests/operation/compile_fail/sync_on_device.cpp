// sync_on takes a stream.
// Error: sync_on() takes a stream: write std::move(operation).on(device).sync()
#include <tessera/operation.hpp>

using namespace tessera;

void use(const Device& device) {
#ifdef FIXED
  value(1).on(device).sync();
#else
  value(1).sync_on(device);
#endif
}
