// The tests of the C interface, compiled as C++.
#include "buffers.c"
#include "commands.c"
#include "devices.c"
#include "errors.c"
#include "main.c"
#include "misuse.c"
#include "pipelines.c"
#include "threads.c"
