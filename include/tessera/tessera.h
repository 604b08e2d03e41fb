/* Tessera from C, and from every language that can call C.
 *
 *   tessera_device* device = NULL;
 *   if (tessera_device_best(&device) != TESSERA_OK) fprintf(stderr, "%s\n", tessera_last_error());
 *
 * Conventions
 * - Functions return TESSERA_OK or the kind of error; tessera_last_error() then has the text. What they make is written
 *   to their last argument, which is set to NULL or 0 if they fail.
 * - Handles such as tessera_device* are numbers, not addresses. Each is released once with the release function of its
 *   kind, on any thread and at any time: commands in flight keep what they use. Releasing NULL does nothing.
 * - A bad handle (NULL, released, of another kind, any other number) is TESSERA_INVALID_ARGUMENT and never a crash.
 * - Strings are UTF-8 and end with a zero byte. Parameters of kernels are JSON objects, "{\"radius\": 3}", or NULL.
 * - Option and info structures begin with their size, so that old programs run with newer libraries. Start options from
 *   their defaults: tessera_stream_options options = TESSERA_STREAM_OPTIONS. Other structures never change.
 * - Every function may be called on any thread, and from callbacks. Only those that say so block.
 * - What each operation means is told in full by the C++ headers of the same names: device.hpp, buffer.hpp and so on.
 *   docs/c.md is a guide.
 *
 * Link with -ltessera_c: pkg-config tessera-c, or tessera::c in CMake. */
#ifndef TESSERA_H
#define TESSERA_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TESSERA_C_API __attribute__((visibility("default")))
#else
#define TESSERA_C_API
#endif

/* An enumeration may hold any number that a program in another language passes. This makes all of them valid in C++, so
 * that the library can refuse those that mean nothing. */
#ifdef __cplusplus
#define TESSERA_AS_INT32 : int32_t
extern "C" {
#else
#define TESSERA_AS_INT32
#endif

/* ---- Errors ---------------------------------------------------------------------------------------------------- */

/* The kind of an error: what error.hpp calls Errc. New kinds are added at the end. */
typedef enum tessera_code TESSERA_AS_INT32 {
  TESSERA_OK = 0,
  TESSERA_INVALID_ARGUMENT = 1,
  TESSERA_OVERFLOW = 2,
  TESSERA_UNKNOWN_DEVICE = 3,
  TESSERA_UNKNOWN_KERNEL = 4,
  TESSERA_UNKNOWN_PARAMETER = 5,
  TESSERA_INVALID_PARAMETER = 6,
  TESSERA_INVALID_KERNEL = 7,
  TESSERA_COUNT_MISMATCH = 8,
  TESSERA_SHAPE_MISMATCH = 9,
  TESSERA_DTYPE_MISMATCH = 10,
  TESSERA_WRONG_DEVICE = 11,
  TESSERA_BUFFER_FREED = 12,
  TESSERA_UNKNOWN_COMMAND = 13,
  TESSERA_CALL_FAILED = 14,
  TESSERA_UNSUPPORTED = 15,
  TESSERA_CANCELLED_ERROR = 16, /* the work was cancelled; TESSERA_CANCELLED is the status of a command */
  TESSERA_DEADLINE_EXCEEDED = 17,
  TESSERA_STREAM_FULL = 18,
  TESSERA_OUT_OF_MEMORY = 19,
  TESSERA_DEVICE_FAILURE = 20,
  TESSERA_IO_ERROR = 21,
  TESSERA_INTERNAL = 22,
  TESSERA_TIMED_OUT = 23 /* a wait with a time limit ended; the command carries on */
} tessera_code;

/* The text of the last error on this thread, with the whole chain of causes; "" if there was none. Valid until the next
 * call on this thread that fails; one that succeeds leaves it as it is. Functions that return no code set it too. */
TESSERA_C_API const char* tessera_last_error(void);
/* "invalid_argument" and so on; "unknown" for another number. */
TESSERA_C_API const char* tessera_code_name(tessera_code code);

/* ---- Version --------------------------------------------------------------------------------------------------- */

/* The version that this header belongs to. */
#define TESSERA_VERSION_MAJOR 0
#define TESSERA_VERSION_MINOR 1
#define TESSERA_VERSION_PATCH 0

/* The version of the loaded library: "0.1.0". */
TESSERA_C_API const char* tessera_version(void);
/* TESSERA_OK if a program compiled with this version of the header can use the loaded library, else
 * TESSERA_UNSUPPORTED. Call it as tessera_check_version(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR). */
TESSERA_C_API tessera_code tessera_check_version(int major, int minor);

/* ---- Handles and common types ---------------------------------------------------------------------------------- */

typedef struct tessera_device tessera_device;
typedef struct tessera_buffer tessera_buffer;
typedef struct tessera_mapping tessera_mapping;
typedef struct tessera_command tessera_command;
typedef struct tessera_events tessera_events;
typedef struct tessera_stream tessera_stream;
typedef struct tessera_pipeline tessera_pipeline;
typedef struct tessera_kernels tessera_kernels;
typedef struct tessera_image tessera_image;
typedef struct tessera_text tessera_text;

/* How many handles this process has not released: for tests that look for leaks. */
TESSERA_C_API size_t tessera_live_handles(void);

typedef enum tessera_dtype TESSERA_AS_INT32 {
  TESSERA_F32 = 0,
  TESSERA_F64 = 1,
  TESSERA_S32 = 2,
  TESSERA_S64 = 3,
  TESSERA_U32 = 4,
  TESSERA_U8 = 5
} tessera_dtype;

/* "f32" and so on; NULL for another number. The inverse also takes "float32", "i32" and the like. */
TESSERA_C_API const char* tessera_dtype_name(tessera_dtype dtype);
TESSERA_C_API tessera_code tessera_dtype_from_name(const char* name, tessera_dtype* dtype);
/* Bytes of an element; 0 for another number. */
TESSERA_C_API size_t tessera_dtype_size(tessera_dtype dtype);

#define TESSERA_MAX_RANK 8

/* The status of a command. It only moves down this list, and the last three are final. */
typedef enum tessera_status TESSERA_AS_INT32 {
  TESSERA_PENDING = 0,
  TESSERA_RUNNING = 1,
  TESSERA_COMPLETED = 2,
  TESSERA_FAILED = 3,
  TESSERA_CANCELLED = 4
} tessera_status;

/* "pending" and so on; NULL for another number. */
TESSERA_C_API const char* tessera_status_name(tessera_status status);

/* Text or bytes that the library made. A zero byte follows them, which is not counted. The data is valid until the
 * release; NULL and 0 for a bad handle. */
TESSERA_C_API const char* tessera_text_data(const tessera_text* text);
TESSERA_C_API size_t tessera_text_size(const tessera_text* text);
TESSERA_C_API void tessera_text_release(tessera_text* text);

/* ---- Devices --------------------------------------------------------------------------------------------------- */

typedef struct tessera_device_info {
  size_t struct_size; /* set it to sizeof(tessera_device_info) */
  char name[128];     /* "AMD EPYC" */
  char backend[32];   /* as for tessera_device_open: "cpu", "vulkan" */
  char version[128];  /* of the driver */
  int32_t is_gpu;     /* 0 for a software GPU */
  int32_t is_discrete;
  uint64_t memory; /* bytes */
  uint32_t compute_units;
  uint32_t dtypes; /* bit 1 << TESSERA_F32 and so on: the element types its kernels support */
} tessera_device_info;

typedef struct tessera_memory_info {
  size_t struct_size; /* set it to sizeof(tessera_memory_info) */
  uint64_t in_use;
  uint64_t reserved;
  uint64_t peak;
  uint64_t limit;
  uint64_t buffers;
  uint64_t allocations;
} tessera_memory_info;

typedef enum tessera_power_level TESSERA_AS_INT32 {
  TESSERA_POWER_NOMINAL = 0,
  TESSERA_POWER_FAIR = 1,
  TESSERA_POWER_SERIOUS = 2,
  TESSERA_POWER_CRITICAL = 3
} tessera_power_level;

/* The available devices: how many, and each. The first call loads all drivers, which takes a few tenths of a second. */
TESSERA_C_API tessera_code tessera_device_count(size_t* count);
TESSERA_C_API tessera_code tessera_device_list(size_t index, tessera_device_info* info);

/* The default device, and the one of a backend: "cpu", "vulkan", "vulkan:1". Every call gives the same device in a new
 * handle. */
TESSERA_C_API tessera_code tessera_device_best(tessera_device** device);
TESSERA_C_API tessera_code tessera_device_open(const char* backend, tessera_device** device);
TESSERA_C_API void tessera_device_release(tessera_device* device);

TESSERA_C_API tessera_code tessera_device_get_info(tessera_device* device, tessera_device_info* info);
TESSERA_C_API tessera_code tessera_device_memory(tessera_device* device, tessera_memory_info* info);
TESSERA_C_API tessera_code tessera_device_set_memory_limit(tessera_device* device, uint64_t bytes);
/* Returns unused memory to the system, and the number of bytes in *bytes, which may be NULL. */
TESSERA_C_API tessera_code tessera_device_trim_memory(tessera_device* device, uint64_t* bytes);
TESSERA_C_API tessera_code tessera_device_power_level(tessera_device* device, tessera_power_level* level);
TESSERA_C_API tessera_code tessera_device_set_power_level(tessera_device* device, tessera_power_level level);
/* Blocks until everything submitted has finished. Returns the oldest failure that nobody has looked at. */
TESSERA_C_API tessera_code tessera_device_synchronize(tessera_device* device);

/* A device for tests: see simulation.hpp. */
typedef enum tessera_fault_kind TESSERA_AS_INT32 {
  TESSERA_FAULT_FAIL = 0,
  TESSERA_FAULT_DELAY = 1,
  TESSERA_FAULT_OUT_OF_MEMORY = 2
} tessera_fault_kind;
typedef struct tessera_fault {
  uint64_t command; /* the number of the command, from 1 */
  tessera_fault_kind kind;
  uint64_t delay_ns;
} tessera_fault;
typedef struct tessera_simulation_options {
  size_t struct_size;
  uint64_t seed;
  const char* backend; /* the device underneath; NULL: "cpu" */
  uint32_t workers;    /* 0: commands run in the waiting calls, in an order that the seed decides */
  const tessera_fault* faults;
  size_t fault_count;
  double fail_rate;
  uint64_t out_of_memory_at_allocation; /* 0: none */
} tessera_simulation_options;
#define TESSERA_SIMULATION_OPTIONS {sizeof(tessera_simulation_options), 0, NULL, 2, NULL, 0, 0.0, 0}
/* NULL for the defaults. */
TESSERA_C_API tessera_code tessera_device_simulated(const tessera_simulation_options* options, tessera_device** device);

/* ---- Buffers --------------------------------------------------------------------------------------------------- */

/* A copy of `bytes` bytes, which must be the size of the shape; or zeros; or uninitialised. */
TESSERA_C_API tessera_code tessera_buffer_from_host(tessera_device* device, const void* data, size_t bytes,
                                                    const int64_t* shape, size_t rank, tessera_dtype dtype,
                                                    tessera_buffer** buffer);
TESSERA_C_API tessera_code tessera_buffer_zeros(tessera_device* device, const int64_t* shape, size_t rank,
                                                tessera_dtype dtype, tessera_buffer** buffer);
TESSERA_C_API tessera_code tessera_buffer_empty(tessera_device* device, const int64_t* shape, size_t rank,
                                                tessera_dtype dtype, tessera_buffer** buffer);
/* The caller's own memory, used in place where that is possible: on the CPU, if it is aligned to 64 bytes. It belongs
 * to the buffer until `release`, which must not be NULL, is called with `data` and `user`: once, on any thread, when
 * nothing uses it any more. Elsewhere the contents are copied, and `release` is called before this returns. If this
 * fails, it is not called. */
typedef void (*tessera_release_memory)(void* data, void* user);
TESSERA_C_API tessera_code tessera_buffer_wrap(tessera_device* device, void* data, size_t bytes, const int64_t* shape,
                                               size_t rank, tessera_dtype dtype, tessera_release_memory release,
                                               void* user, tessera_buffer** buffer);
/* The pixels of an image: u8 [height,width], or [height,width,3] or [height,width,4]. */
TESSERA_C_API tessera_code tessera_buffer_from_image(tessera_device* device, tessera_image* image,
                                                     tessera_buffer** buffer);
/* The same memory with another shape. */
TESSERA_C_API tessera_code tessera_buffer_reshape(tessera_buffer* buffer, const int64_t* shape, size_t rank,
                                                  tessera_buffer** reshaped);
TESSERA_C_API void tessera_buffer_release(tessera_buffer* buffer);

/* Gives the memory back now. Later uses through any handle are TESSERA_BUFFER_FREED, a second free too; the handle is
 * released as usual. */
TESSERA_C_API tessera_code tessera_buffer_free(tessera_buffer* buffer);
/* Several of them, or none if one is bad or freed. */
TESSERA_C_API tessera_code tessera_buffers_free(tessera_buffer* const* buffers, size_t count);
TESSERA_C_API tessera_code tessera_buffer_is_freed(tessera_buffer* buffer, int32_t* is_freed);

/* `shape` has space for TESSERA_MAX_RANK extents. */
TESSERA_C_API tessera_code tessera_buffer_shape(tessera_buffer* buffer, int64_t* shape, size_t* rank);
TESSERA_C_API tessera_code tessera_buffer_dtype(tessera_buffer* buffer, tessera_dtype* dtype);
TESSERA_C_API tessera_code tessera_buffer_size(tessera_buffer* buffer, size_t* bytes);
TESSERA_C_API tessera_code tessera_buffer_device(tessera_buffer* buffer, tessera_device** device);

/* Copy the whole contents. `bytes` must be the buffer's size. Block until the commands in the way have finished. */
TESSERA_C_API tessera_code tessera_buffer_read(tessera_buffer* buffer, void* data, size_t bytes);
TESSERA_C_API tessera_code tessera_buffer_write(tessera_buffer* buffer, const void* data, size_t bytes);
/* The elements from the number `first` on. */
TESSERA_C_API tessera_code tessera_buffer_write_at(tessera_buffer* buffer, int64_t first, const void* data,
                                                   size_t bytes);

/* Access to the contents without a copy, where the host can address the device's memory. Blocks until no command uses
 * the buffer (or, read-only, writes it). Later commands on it wait until the mapping is released. A thread must not
 * wait for them before. */
TESSERA_C_API tessera_code tessera_buffer_map(tessera_buffer* buffer, tessera_mapping** mapping);
TESSERA_C_API tessera_code tessera_buffer_map_read(tessera_buffer* buffer, tessera_mapping** mapping);
/* NULL for a bad handle. Write only through what tessera_buffer_map made. */
TESSERA_C_API void* tessera_mapping_data(tessera_mapping* mapping);
TESSERA_C_API size_t tessera_mapping_size(tessera_mapping* mapping);
TESSERA_C_API void tessera_mapping_release(tessera_mapping* mapping);

/* Copies to a buffer of the same type and shape, on any device. A wrong call gives a command that has failed. */
TESSERA_C_API tessera_code tessera_buffer_copy(tessera_buffer* from, tessera_buffer* to, tessera_command** command);
/* A copy on that device, which is filled asynchronously. */
TESSERA_C_API tessera_code tessera_buffer_copy_to_device(tessera_buffer* buffer, tessera_device* device,
                                                         tessera_buffer** copy);

/* ---- Kernels --------------------------------------------------------------------------------------------------- */

typedef struct tessera_param_info {
  const char* name;
  const char* type;          /* "number", "integer", "boolean", "string", "list of numbers", "list of integers" */
  const char* range;         /* "0..64"; "" for any value of its type */
  const char* default_value; /* as JSON; NULL if it is required */
  const char* documentation;
} tessera_param_info;

typedef struct tessera_kernel_info {
  size_t struct_size; /* set it to sizeof(tessera_kernel_info) */
  const char* name;
  const char* documentation; /* a line */
  const char* const* inputs; /* their names */
  size_t input_count;
  size_t optional_inputs; /* how many of the last may be left out */
  const tessera_param_info* params;
  size_t param_count;
  const char* const* aliases;
  size_t alias_count;
  uint32_t dtypes; /* bits as in tessera_device_info */
} tessera_kernel_info;

/* The kernels of a device, sorted by name. What the infos point to is valid until the list is released. */
TESSERA_C_API tessera_code tessera_device_kernels(tessera_device* device, tessera_kernels** kernels);
TESSERA_C_API size_t tessera_kernels_count(const tessera_kernels* kernels);
TESSERA_C_API tessera_code tessera_kernels_get(const tessera_kernels* kernels, size_t index, tessera_kernel_info* info);
TESSERA_C_API void tessera_kernels_release(tessera_kernels* kernels);

/* Defines an element-wise kernel by an expression, for every device: see kernel.hpp for the grammar. `params` has the
 * parameters' defaults.
 *
 *   const char* names[] = {"x"};
 *   tessera_define_kernel("soft_clip", names, 1, "x / (1 + abs(x) * hardness)", "{\"hardness\": 1}"); */
TESSERA_C_API tessera_code tessera_define_kernel(const char* name, const char* const* inputs, size_t input_count,
                                                 const char* expression, const char* params);

/* Runs a kernel and blocks until it has finished. */
TESSERA_C_API tessera_code tessera_run(tessera_device* device, const char* kernel, tessera_buffer* const* inputs,
                                       size_t input_count, tessera_buffer* output, const char* params);
/* Returns a command at once. A wrong call gives a command that has failed, and poisons the output. Only what cannot
 * become a command (a bad handle, malformed JSON) is refused here; *command is then NULL. */
TESSERA_C_API tessera_code tessera_submit(tessera_device* device, const char* kernel, tessera_buffer* const* inputs,
                                          size_t input_count, tessera_buffer* output, const char* params,
                                          tessera_command** command);

/* ---- Commands -------------------------------------------------------------------------------------------------- */

TESSERA_C_API void tessera_command_release(tessera_command* command);

TESSERA_C_API tessera_code tessera_command_id(tessera_command* command, uint64_t* id);
TESSERA_C_API tessera_code tessera_command_poll(tessera_command* command, tessera_status* status);
/* Block until the command has finished; return its error if it failed or was cancelled. */
TESSERA_C_API tessera_code tessera_command_wait(tessera_command* command);
/* TESSERA_TIMED_OUT after this many nanoseconds. */
TESSERA_C_API tessera_code tessera_command_wait_for(tessera_command* command, uint64_t nanoseconds);
/* Sets *was_pending, which may be NULL, to 1 if it had not started and is cancelled now. */
TESSERA_C_API tessera_code tessera_command_cancel(tessera_command* command, int32_t* was_pending);
/* Why it failed or was cancelled, also as tessera_last_error(); TESSERA_OK if it completed or has not finished. */
TESSERA_C_API tessera_code tessera_command_error(tessera_command* command);

/* Calls the function once, when the command has finished: here if it already has, else on the thread that finishes it.
 * The callback may call anything. It gets the handle given here, even if that has been released since. The functions
 * that wait for the command by its handle return after its callbacks, so do not hold a lock there that a callback
 * takes; inside a callback they do not wait for other callbacks. */
typedef void (*tessera_callback)(tessera_command* command, tessera_status status, void* user);
TESSERA_C_API tessera_code tessera_command_on_complete(tessera_command* command, tessera_callback callback, void* user);

/* All of them; then the first error in the list. Or any of them: its index. Block. */
TESSERA_C_API tessera_code tessera_wait_all(tessera_command* const* commands, size_t count);
TESSERA_C_API tessera_code tessera_wait_any(tessera_command* const* commands, size_t count, size_t* index);

/* By number, which stays valid for at least 65,536 commands after its own has finished. */
TESSERA_C_API tessera_code tessera_poll(tessera_device* device, uint64_t id, tessera_status* status);
TESSERA_C_API tessera_code tessera_wait(tessera_device* device, uint64_t id);
TESSERA_C_API tessera_code tessera_cancel(tessera_device* device, uint64_t id, int32_t* was_pending);

/* For event loops: a queue of commands that have finished, with a descriptor that is readable while the queue has some
 * (poll, epoll, select, libuv, asyncio). Do not read from the descriptor or close it.
 *
 *   tessera_events_watch(events, command, token);
 *   … when the descriptor is readable:
 *   tessera_event event;
 *   while (tessera_events_next(events, &event) == TESSERA_OK && event.has_event) use(event.token, event.status); */
typedef struct tessera_event {
  int32_t has_event; /* 0: the queue is empty */
  tessera_status status;
  uint64_t token; /* as given to tessera_events_watch */
  uint64_t id;    /* the command's number */
} tessera_event;
TESSERA_C_API tessera_code tessera_events_create(tessera_events** events);
/* Closes the descriptor. Commands that are still watched carry on. */
TESSERA_C_API void tessera_events_release(tessera_events* events);
/* -1 for a bad handle. */
TESSERA_C_API int tessera_events_descriptor(tessera_events* events);
TESSERA_C_API tessera_code tessera_events_watch(tessera_events* events, tessera_command* command, uint64_t token);
/* Never blocks. */
TESSERA_C_API tessera_code tessera_events_next(tessera_events* events, tessera_event* event);

/* ---- Streams --------------------------------------------------------------------------------------------------- */

typedef enum tessera_priority TESSERA_AS_INT32 {
  TESSERA_PRIORITY_HIGH = 0,
  TESSERA_PRIORITY_NORMAL = 1,
  TESSERA_PRIORITY_LOW = 2
} tessera_priority;
typedef enum tessera_when_full TESSERA_AS_INT32 {
  TESSERA_WHEN_FULL_BLOCK = 0,
  TESSERA_WHEN_FULL_REJECT = 1,
  TESSERA_WHEN_FULL_DROP_OLDEST = 2
} tessera_when_full;
typedef struct tessera_stream_options {
  size_t struct_size;
  tessera_priority priority;
  tessera_when_full when_full;
  uint64_t max_in_flight; /* 0: no limit */
  uint64_t deadline_ns;   /* 0: none */
  int32_t in_order;
} tessera_stream_options;
#define TESSERA_STREAM_OPTIONS \
  {sizeof(tessera_stream_options), TESSERA_PRIORITY_NORMAL, TESSERA_WHEN_FULL_BLOCK, 0, 0, 1}

/* NULL for the defaults. */
TESSERA_C_API tessera_code tessera_stream_create(tessera_device* device, const tessera_stream_options* options,
                                                 tessera_stream** stream);
TESSERA_C_API void tessera_stream_release(tessera_stream* stream);
TESSERA_C_API tessera_code tessera_stream_run(tessera_stream* stream, const char* kernel, tessera_buffer* const* inputs,
                                              size_t input_count, tessera_buffer* output, const char* params);
/* Blocks if the stream is full and has TESSERA_WHEN_FULL_BLOCK. */
TESSERA_C_API tessera_code tessera_stream_submit(tessera_stream* stream, const char* kernel,
                                                 tessera_buffer* const* inputs, size_t input_count,
                                                 tessera_buffer* output, const char* params, tessera_command** command);
TESSERA_C_API tessera_code tessera_stream_device(tessera_stream* stream, tessera_device** device);
TESSERA_C_API tessera_code tessera_stream_in_flight(tessera_stream* stream, size_t* count);
TESSERA_C_API tessera_code tessera_stream_synchronize(tessera_stream* stream);

/* ---- Pipelines ------------------------------------------------------------------------------------------------- */

typedef struct tessera_pipeline_options {
  size_t struct_size;
  int32_t fuse; /* merge stages into one launch */
} tessera_pipeline_options;
#define TESSERA_PIPELINE_OPTIONS {sizeof(tessera_pipeline_options), 1}

/* NULL for the defaults. */
TESSERA_C_API tessera_code tessera_pipeline_create(tessera_device* device, const tessera_pipeline_options* options,
                                                   tessera_pipeline** pipeline);
TESSERA_C_API tessera_code tessera_pipeline_clone(tessera_pipeline* pipeline, tessera_pipeline** clone);
TESSERA_C_API tessera_code tessera_pipeline_device(tessera_pipeline* pipeline, tessera_device** device);
TESSERA_C_API void tessera_pipeline_release(tessera_pipeline* pipeline);

/* Record a stage. tessera_pipeline_compile checks them. A parameter {"sigma": {"param": "sigma"}} is bound by each run:
 * see tessera_pipeline_param. */
TESSERA_C_API tessera_code tessera_pipeline_add(tessera_pipeline* pipeline, const char* kernel,
                                                tessera_buffer* const* inputs, size_t input_count,
                                                tessera_buffer* output, const char* params);
TESSERA_C_API tessera_code tessera_pipeline_copy(tessera_pipeline* pipeline, tessera_buffer* from, tessera_buffer* to);
/* `value` is JSON: a number, or {"param": "name"}. */
TESSERA_C_API tessera_code tessera_pipeline_fill(tessera_pipeline* pipeline, tessera_buffer* output, const char* value);
TESSERA_C_API tessera_code tessera_pipeline_barrier(tessera_pipeline* pipeline);
/* Calls a function with the memory of these buffers, on a worker thread. A result other than 0 fails the stage.
 * `destroy`, which may be NULL, is called with `user` when the pipeline and its runs no longer need it, also if this
 * fails. */
typedef struct tessera_host_call {
  const void* const* inputs;
  void* const* outputs;
  const size_t* input_bytes;
  const size_t* output_bytes;
  size_t input_count;
  size_t output_count;
} tessera_host_call;
typedef int (*tessera_host_function)(const tessera_host_call* call, void* user);
TESSERA_C_API tessera_code tessera_pipeline_call(tessera_pipeline* pipeline, const char* name,
                                                 tessera_host_function function, void* user,
                                                 void (*destroy)(void* user), tessera_buffer* const* reads,
                                                 size_t read_count, tessera_buffer* const* writes, size_t write_count);

/* A buffer that exists only inside the pipeline; one that each run binds; a parameter that each run may bind, with its
 * default as JSON. */
TESSERA_C_API tessera_code tessera_pipeline_temporary(tessera_pipeline* pipeline, const int64_t* shape, size_t rank,
                                                      tessera_dtype dtype, tessera_buffer** buffer);
TESSERA_C_API tessera_code tessera_pipeline_slot(tessera_pipeline* pipeline, const char* name, const int64_t* shape,
                                                 size_t rank, tessera_dtype dtype, tessera_buffer** buffer);
TESSERA_C_API tessera_code tessera_pipeline_param(tessera_pipeline* pipeline, const char* name,
                                                  const char* default_value);

TESSERA_C_API tessera_code tessera_pipeline_stage_count(tessera_pipeline* pipeline, size_t* count);
/* Checks, plans and compiles; the error lists every problem. Blocks. */
TESSERA_C_API tessera_code tessera_pipeline_compile(tessera_pipeline* pipeline);

/* What a run binds: a buffer to a slot, or a value, as JSON, to a parameter. */
typedef struct tessera_binding {
  const char* name;
  tessera_buffer* buffer; /* or NULL */
  const char* value;      /* or NULL */
} tessera_binding;
/* Runs all stages and blocks. Or returns a command for the whole run at once. `stream` may be NULL. */
TESSERA_C_API tessera_code tessera_pipeline_run(tessera_pipeline* pipeline, const tessera_binding* bindings,
                                                size_t count, tessera_stream* stream);
TESSERA_C_API tessera_code tessera_pipeline_submit(tessera_pipeline* pipeline, const tessera_binding* bindings,
                                                   size_t count, tessera_stream* stream, tessera_command** command);

/* A copy of the pipeline as a command with a name, and its runs. */
TESSERA_C_API tessera_code tessera_define_command(tessera_device* device, const char* name, tessera_pipeline* pipeline);
TESSERA_C_API tessera_code tessera_run_command(tessera_device* device, const char* name,
                                               const tessera_binding* bindings, size_t count);
TESSERA_C_API tessera_code tessera_submit_command(tessera_device* device, const char* name,
                                                  const tessera_binding* bindings, size_t count,
                                                  tessera_command** command);

TESSERA_C_API tessera_code tessera_pipeline_explain(tessera_pipeline* pipeline, tessera_text** text);
TESSERA_C_API tessera_code tessera_pipeline_to_dot(tessera_pipeline* pipeline, tessera_text** text);
/* One warning a line; "" if there is none. */
TESSERA_C_API tessera_code tessera_pipeline_warnings(tessera_pipeline* pipeline, tessera_text** text);
TESSERA_C_API tessera_code tessera_pipeline_to_json(tessera_pipeline* pipeline, tessera_text** text);
TESSERA_C_API tessera_code tessera_pipeline_from_json(tessera_device* device, const char* json,
                                                      tessera_pipeline** pipeline);
/* The times of the last run that was timed, as JSON:
 * {"run": 1, "status": "completed", "total_ns": 812, "stages": [{"stage": 0, "label": "relu", "group": 0, "start_ns":
 * 3, "duration_ns": 200, "compiling_ns": 0}, …]} */
TESSERA_C_API tessera_code tessera_pipeline_last_run(tessera_pipeline* pipeline, tessera_text** text);

/* ---- Images ---------------------------------------------------------------------------------------------------- */

typedef enum tessera_channels TESSERA_AS_INT32 {
  TESSERA_CHANNELS_RGBA = 0,
  TESSERA_CHANNELS_RGB = 1,
  TESSERA_CHANNELS_GRAY = 2,
  TESSERA_CHANNELS_AS_FILE = 3
} tessera_channels;
typedef struct tessera_load_image_options {
  size_t struct_size;
  tessera_channels channels;
  int32_t upright; /* apply the Exif orientation */
  int64_t max_pixels;
} tessera_load_image_options;
#define TESSERA_LOAD_IMAGE_OPTIONS {sizeof(tessera_load_image_options), TESSERA_CHANNELS_RGBA, 1, (int64_t)1 << 28}
typedef enum tessera_image_format TESSERA_AS_INT32 { TESSERA_PNG = 0, TESSERA_JPEG = 1 } tessera_image_format;

/* From a PNG or JPEG file, or from one in memory; options may be NULL. From pixels: u8 rows from top to bottom, with 1,
 * 3 or 4 channels. Block. */
TESSERA_C_API tessera_code tessera_image_load(const char* path, const tessera_load_image_options* options,
                                              tessera_image** image);
TESSERA_C_API tessera_code tessera_image_decode(const void* file, size_t bytes,
                                                const tessera_load_image_options* options, tessera_image** image);
TESSERA_C_API tessera_code tessera_image_from_pixels(const void* pixels, size_t bytes, int64_t width, int64_t height,
                                                     int32_t channels, tessera_image** image);
TESSERA_C_API tessera_code tessera_image_from_buffer(tessera_buffer* buffer, tessera_image** image);
TESSERA_C_API void tessera_image_release(tessera_image* image);

TESSERA_C_API tessera_code tessera_image_size(tessera_image* image, int64_t* width, int64_t* height, int32_t* channels);
/* The pixels, valid until the release; NULL for a bad handle. */
TESSERA_C_API uint8_t* tessera_image_pixels(tessera_image* image);

/* By the extension: .png, .jpg, .jpeg. `quality` is a JPEG's, 1 to 100. Block. */
TESSERA_C_API tessera_code tessera_image_save(tessera_image* image, const char* path, int32_t quality);
TESSERA_C_API tessera_code tessera_image_encode(tessera_image* image, tessera_image_format format, int32_t quality,
                                                tessera_text** file);

/* ---- Trace ----------------------------------------------------------------------------------------------------- */

/* Records every command into a file for chrome://tracing and ui.perfetto.dev. */
TESSERA_C_API tessera_code tessera_trace_start(const char* path);
TESSERA_C_API tessera_code tessera_trace_stop(void);
TESSERA_C_API int32_t tessera_trace_is_on(void);

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_H */
