#pragma once

namespace tessera::core {

// Whether an object is a local variable of a function that this thread is in. False if that cannot be told.
bool is_on_this_stack(const void* object) noexcept;

}  // namespace tessera::core
