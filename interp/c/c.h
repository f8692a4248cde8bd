/* moonlet/c.h: Moonlet for programs in C, and in every language that can call C: interpreters,
   values, tensors, ops, gradients and programs. C99; no Lua is needed. In libmoonlet (pkg-config
   moonlet).

   Every function that can fail returns a moonlet_status; what it gives it writes through pointers,
   which may be null unless a comment says otherwise, and which a failure leaves alone. No exception
   and no longjmp leaves a function. The text of the last failure is the thread's own
   (moonlet_error_message).

   Handles. An interpreter, table, function, object, tensor, program, context or hook is a handle: a
   number with the type of a pointer, which nobody may dereference. What a function gives belongs to
   the caller, who frees it once; what is given to a function is only borrowed. A handle that is
   null, was freed, or is of another kind is refused with MOONLET_INVALID. Two handles may stand for
   one tensor or table.

   Threads. Handles of tensors and programs may be used by several threads at once, as long as none
   of them frees it. An interpreter with its tables and functions may be used by any thread, by one
   at a time: a call that comes while another thread is inside is refused with MOONLET_BUSY.

   Texts that come back (messages, names, strings in values) are valid until the thread's next call
   of a function of this header; texts that go in are copied. Strings of Lua may hold any bytes.

   Dims and positions count from 0 in arguments. Positions inside of index tensors and class targets
   count from 1, as in scripts.

   Structs of options begin with their size, which the caller sets: `moonlet_options o = {.size =
   sizeof o};`. All other fields may be 0. Later versions add fields at the end, functions and
   values of enums, and change nothing else while MOONLET_ABI_VERSION stays. */
#ifndef MOONLET_C_H
#define MOONLET_C_H

#include <stddef.h>
#include <stdint.h>

#ifndef MOONLET_API
#define MOONLET_API __attribute__((visibility("default")))
#endif
#define MOONLET_ABI_VERSION 1
#define MOONLET_MAX_DIMS 12

#ifdef __cplusplus
extern "C" {
#endif

typedef struct moonlet_interpreter_handle* moonlet_interpreter;
typedef struct moonlet_table_handle* moonlet_table;
typedef struct moonlet_function_handle* moonlet_function;
typedef struct moonlet_object_handle* moonlet_object;
typedef struct moonlet_tensor_handle* moonlet_tensor;
typedef struct moonlet_program_handle* moonlet_program;
typedef struct moonlet_context_handle* moonlet_context;
typedef struct moonlet_hook_handle* moonlet_hook;
/* An op of the table; never freed. */
typedef const struct moonlet_op_info* moonlet_op;
/* Where a host function puts its results; valid during its call. */
typedef struct moonlet_result_list* moonlet_results;

typedef int32_t moonlet_status;
enum {
  MOONLET_OK = 0,
  MOONLET_INVALID = 1,      /* a handle or pointer that is none, an argument out of range */
  MOONLET_ERROR = 2,        /* what was asked for cannot be done */
  MOONLET_SCRIPT_ERROR = 3, /* a script failed: there are a traceback and an error value */
  MOONLET_LIMIT = 4,        /* a run has passed a limit of its options: moonlet_error_limit */
  MOONLET_INTERRUPTED = 5,  /* moonlet_interrupt has ended a run */
  MOONLET_NO_MEMORY = 6,
  MOONLET_BUSY = 7,   /* another thread is inside */
  MOONLET_FOREIGN = 8 /* an exception that is none of Moonlet's, as of a C++ callback */
};

enum {
  MOONLET_LIMIT_NONE = 0,
  MOONLET_LIMIT_LUA_BYTES = 1,
  MOONLET_LIMIT_TENSOR_BYTES = 2,
  MOONLET_LIMIT_INSTRUCTIONS = 3,
  MOONLET_LIMIT_WALL_TIME = 4
};

/* --- errors and versions -----------------------------------------------------------------------
 */

/* "0.1.0", and the number MOONLET_ABI_VERSION that the library was built with. Never fail. */
MOONLET_API const char* moonlet_version(void);
MOONLET_API int32_t moonlet_abi_version(void);

/* Of this thread's last failure: its status, its message, its traceback ("" where no script ran),
   and which limit it was. Valid until the next failure on the thread. Never fail. */
MOONLET_API moonlet_status moonlet_error_status(void);
MOONLET_API const char* moonlet_error_message(void);
MOONLET_API const char* moonlet_error_traceback(void);
MOONLET_API int32_t moonlet_error_limit(void);
/* "MOONLET_BUSY"; "unknown status" for other numbers. Never fails. */
MOONLET_API const char* moonlet_status_name(moonlet_status status);
/* For host functions that fail: the message of the error that the script gets. */
MOONLET_API void moonlet_set_error(const char* message);
/* How many handles the process holds: for hosts that look for leaks. Never fails. */
MOONLET_API size_t moonlet_live_handles(void);

/* --- values ------------------------------------------------------------------------------------
 */

/* The kinds up to MOONLET_OBJECT are Lua's values; those behind are for arguments of ops alone. */
enum {
  MOONLET_NIL = 0,
  MOONLET_BOOLEAN = 1,
  MOONLET_INTEGER = 2,
  MOONLET_NUMBER = 3,
  MOONLET_STRING = 4,
  MOONLET_TENSOR = 5,
  MOONLET_TABLE = 6,
  MOONLET_FUNCTION = 7,
  MOONLET_OBJECT = 8, /* another value (userdata, a coroutine), which can be handed back */
  MOONLET_COMPLEX = 9,
  MOONLET_INTEGERS = 10, /* sizes, dims, positions */
  MOONLET_NUMBERS = 11,
  MOONLET_TENSORS = 12, /* a null handle among them stands for none */
  MOONLET_DTYPE = 13,
  MOONLET_PLACEMENT = 14 /* the dtype and the device of a new tensor */
};

/* The dtypes; `moonlet_dtype_name` gives the names that scripts use. */
enum {
  MOONLET_BOOL = 0,
  MOONLET_UINT8 = 1,
  MOONLET_INT8 = 2,
  MOONLET_INT16 = 3,
  MOONLET_INT32 = 4,
  MOONLET_INT64 = 5,
  MOONLET_UINT16 = 6,
  MOONLET_UINT32 = 7,
  MOONLET_UINT64 = 8,
  MOONLET_FLOAT8_E4M3FN = 9,
  MOONLET_FLOAT8_E5M2 = 10,
  MOONLET_FLOAT16 = 11,
  MOONLET_BFLOAT16 = 12,
  MOONLET_FLOAT32 = 13,
  MOONLET_FLOAT64 = 14,
  MOONLET_COMPLEX64 = 15,
  MOONLET_COMPLEX128 = 16
};

/* A value and its kind; all zeros are nil. One that a function gives may hold a handle:
   moonlet_value_free frees it. */
typedef struct moonlet_value {
  int32_t kind;
  int32_t reserved; /* 0 */
  union {
    int32_t boolean; /* also MOONLET_DTYPE's: `dtype` */
    int32_t dtype;
    int64_t integer;
    double number;
    moonlet_tensor tensor;
    moonlet_table table;
    moonlet_function function;
    moonlet_object object;
    struct {
      const char* data;
      size_t size;
    } string;
    struct {
      double real, imag;
    } complex128;
    struct {
      const int64_t* data;
      size_t size;
    } integers;
    struct {
      const double* data;
      size_t size;
    } numbers;
    struct {
      const moonlet_tensor* data;
      size_t size;
    } tensors;
    struct {
      const char* device;
      int32_t dtype;
    } placement; /* null: the default device */
  } as;
} moonlet_value;

/* Frees the handle that the value holds, if any, and makes it nil. */
MOONLET_API moonlet_status moonlet_value_free(moonlet_value* value);
/* The same value with a handle of its own. A string goes on pointing to the same bytes. */
MOONLET_API moonlet_status moonlet_value_copy(const moonlet_value* value, moonlet_value* copy);
/* "nil", "boolean", ... of a kind; "unknown kind" for other numbers. Never fails. */
MOONLET_API const char* moonlet_kind_name(int32_t kind);

/* --- interpreters ------------------------------------------------------------------------------
 */

/* Lua's libraries, for `without`. */
enum {
  MOONLET_LIB_COROUTINE = 1,
  MOONLET_LIB_TABLE = 2,
  MOONLET_LIB_STRING = 4,
  MOONLET_LIB_UTF8 = 8,
  MOONLET_LIB_MATH = 16,
  MOONLET_LIB_IO = 32,
  MOONLET_LIB_OS = 64,
  MOONLET_LIB_DEBUG = 128,
  MOONLET_LIB_PACKAGE = 256
};

/* When garbage is collected; docs/embedding.md describes each. */
enum { MOONLET_COLLECT_AUTOMATIC = 0, MOONLET_COLLECT_BOUNDED = 1, MOONLET_COLLECT_MANUAL = 2 };

/* What the scripts of an interpreter may do; docs/embedding.md describes each. 0 is no limit. */
typedef struct moonlet_options {
  size_t size;
  uint32_t without;    /* the libraries that scripts do not see */
  int32_t environment; /* whether variables of the environment are read */
  int32_t bytecode;    /* whether precompiled chunks are taken */
  int32_t threads;     /* how many CPU threads ops may use; 0: those of the calling thread */
  int64_t lua_bytes;
  int64_t tensor_bytes;
  int64_t instructions;
  int64_t wall_time; /* of a run, in nanoseconds */
  /* Gets what scripts write: `stream` is 0 for output, 1 for errors. Null: the process's streams.
   */
  void (*output)(void* user, int32_t stream, const char* text, size_t size);
  void* user;
  int32_t collector;       /* when garbage is collected: MOONLET_COLLECT_... */
  int32_t collector_pause; /* of MOONLET_COLLECT_BOUNDED, in microseconds; 0: 100 */
  /* Files that the host keeps for scripts: all that Moonlet reads and writes by a path, but what
     Lua's own `io` opens. `file_size` and `read_file` together, or neither: then they are the
     system's. They get `user` and return MOONLET_OK, or another number for a failure, whose reason
     is that of moonlet_set_error. `file_size` says -1 where there is no such file; `read_file`
     fills `out` with `count` bytes from position `at`; `write_file`, which may be null, makes or
     replaces a file of `count` parts. Called on whatever thread the interpreter or a worker of its
     DataLoader runs. */
  moonlet_status (*file_size)(void* user, const char* path, int64_t* bytes);
  moonlet_status (*read_file)(void* user, const char* path, uint64_t at, char* out, size_t count);
  moonlet_status (*write_file)(void* user, const char* path, const char* const* parts,
                               const size_t* sizes, size_t count);
} moonlet_options;

/* Opens an interpreter; null options are the defaults. */
MOONLET_API moonlet_status moonlet_open(const moonlet_options* options, moonlet_interpreter* lua);
/* Closes it and frees the handle. Its tables and functions are refused from then on, and are still
   to be freed. In a host function that the interpreter calls it closes when the outermost call
   ends. */
MOONLET_API moonlet_status moonlet_close(moonlet_interpreter lua);

/* Run Lua source, or a file. `name` (null: "script") is what messages call it. Up to `capacity`
   results are written to `results`, further ones are dropped; `count` gets how many there were. */
MOONLET_API moonlet_status moonlet_run(moonlet_interpreter lua, const char* code, size_t size,
                                       const char* name, moonlet_value* results, size_t capacity,
                                       size_t* count);
MOONLET_API moonlet_status moonlet_run_file(moonlet_interpreter lua, const char* path,
                                            moonlet_value* results, size_t capacity, size_t* count);
/* Calls a global function, or what a path such as "model.forward" leads to. */
MOONLET_API moonlet_status moonlet_call(moonlet_interpreter lua, const char* path,
                                        const moonlet_value* arguments, size_t argument_count,
                                        moonlet_value* results, size_t capacity, size_t* count);
/* The same in at most so many nanoseconds: else the run ends with MOONLET_LIMIT. */
MOONLET_API moonlet_status moonlet_call_within(moonlet_interpreter lua, int64_t nanoseconds,
                                               const char* path, const moonlet_value* arguments,
                                               size_t argument_count, moonlet_value* results,
                                               size_t capacity, size_t* count);
/* A global, or what a path leads to; nil where there is none. */
MOONLET_API moonlet_status moonlet_get(moonlet_interpreter lua, const char* path,
                                       moonlet_value* value);
MOONLET_API moonlet_status moonlet_set(moonlet_interpreter lua, const char* path,
                                       const moonlet_value* value);
/* `ml.load` and `ml.save`: a file of any format that they know. `require`: a module. */
MOONLET_API moonlet_status moonlet_load(moonlet_interpreter lua, const char* path,
                                        moonlet_value* value);
MOONLET_API moonlet_status moonlet_save(moonlet_interpreter lua, const char* path,
                                        const moonlet_value* value);
/* `ml.load_string` and `ml.save_string`: the same with the bytes of a file instead of one. `bytes`
   becomes a MOONLET_STRING; `format` is "safetensors", "pt", "npy", "npz" or "program". */
MOONLET_API moonlet_status moonlet_load_bytes(moonlet_interpreter lua, const void* bytes,
                                              size_t size, moonlet_value* value);
MOONLET_API moonlet_status moonlet_save_bytes(moonlet_interpreter lua, const char* format,
                                              const moonlet_value* value, moonlet_value* bytes);
MOONLET_API moonlet_status moonlet_require(moonlet_interpreter lua, const char* name,
                                           moonlet_value* module);

/* Ends the run that is under way, if there is one, with MOONLET_INTERRUPTED. From any thread, also
   while another one is inside; not from signal handlers. */
MOONLET_API moonlet_status moonlet_interrupt(moonlet_interpreter lua);
/* A full collection of garbage. */
MOONLET_API moonlet_status moonlet_collect(moonlet_interpreter lua);
/* One step of the collector, as if `kilobytes` had been allocated; `done`: whether a cycle ended.
 */
MOONLET_API moonlet_status moonlet_collect_step(moonlet_interpreter lua, int32_t kilobytes,
                                                int32_t* done);
/* Collects for about so many microseconds, and less where all is collected: then `done` is 1. */
MOONLET_API moonlet_status moonlet_collect_for(moonlet_interpreter lua, int64_t microseconds,
                                               int32_t* done);
/* The four limits of `limits` for the next runs; its other fields are not looked at. Refused inside
   a run. */
MOONLET_API moonlet_status moonlet_set_limits(moonlet_interpreter lua,
                                              const moonlet_options* limits);
/* What Lua's values take. */
MOONLET_API moonlet_status moonlet_lua_bytes(moonlet_interpreter lua, int64_t* bytes);
/* How many CPU threads its ops may use: from 1 to 1024. */
MOONLET_API moonlet_status moonlet_get_threads(moonlet_interpreter lua, int32_t* count);
MOONLET_API moonlet_status moonlet_set_threads(moonlet_interpreter lua, int32_t count);

/* --- tables, functions, objects ----------------------------------------------------------------
 */

MOONLET_API moonlet_status moonlet_table_new(moonlet_interpreter lua, moonlet_table* table);
MOONLET_API moonlet_status moonlet_table_free(moonlet_table table);
/* t[key], with metamethods. A key may be any value but nil. */
MOONLET_API moonlet_status moonlet_table_get(moonlet_table table, const moonlet_value* key,
                                             moonlet_value* value);
MOONLET_API moonlet_status moonlet_table_set(moonlet_table table, const moonlet_value* key,
                                             const moonlet_value* value);
MOONLET_API moonlet_status moonlet_table_get_field(moonlet_table table, const char* name,
                                                   moonlet_value* value);
MOONLET_API moonlet_status moonlet_table_set_field(moonlet_table table, const char* name,
                                                   const moonlet_value* value);
MOONLET_API moonlet_status moonlet_table_get_index(moonlet_table table, int64_t index,
                                                   moonlet_value* value);
MOONLET_API moonlet_status moonlet_table_set_index(moonlet_table table, int64_t index,
                                                   const moonlet_value* value);
/* What `#t` gives. */
MOONLET_API moonlet_status moonlet_table_length(moonlet_table table, int64_t* length);
/* The entry behind that of `key`, in no order, without metamethods: begin with a nil key; at the
   end the key is nil again. The key that comes in is freed. Neither pointer may be null. The loop
   may change values that are there, and add none. moonlet_value key = {0}, value; while
   (moonlet_table_next(t, &key, &value) == MOONLET_OK && key.kind != MOONLET_NIL) ... */
MOONLET_API moonlet_status moonlet_table_next(moonlet_table table, moonlet_value* key,
                                              moonlet_value* value);

/* A function of the host. The handles in `arguments` are valid during the call, and Moonlet frees
   them; moonlet_value_copy keeps one. It returns MOONLET_OK, or another number for a failure: then
   the script gets an error, the message of moonlet_set_error or that of the call of this header
   that failed last. What it gives goes to moonlet_results_push. */
typedef moonlet_status (*moonlet_callback)(void* user, moonlet_interpreter lua,
                                           const moonlet_value* arguments, size_t argument_count,
                                           moonlet_results results);
/* Makes one for scripts. `free_user`, which may be null, is called with `user` when no script can
   reach the function any more, and also when this call fails. */
MOONLET_API moonlet_status moonlet_function_new(moonlet_interpreter lua, moonlet_callback callback,
                                                void* user, void (*free_user)(void* user),
                                                moonlet_function* function);
/* The same under a global name or a path. */
MOONLET_API moonlet_status moonlet_register(moonlet_interpreter lua, const char* path,
                                            moonlet_callback callback, void* user,
                                            void (*free_user)(void* user));
MOONLET_API moonlet_status moonlet_results_push(moonlet_results results,
                                                const moonlet_value* value);
/* Calls a function that is held, as moonlet_call does. */
MOONLET_API moonlet_status moonlet_function_call(moonlet_function function,
                                                 const moonlet_value* arguments,
                                                 size_t argument_count, moonlet_value* results,
                                                 size_t capacity, size_t* count);
MOONLET_API moonlet_status moonlet_function_free(moonlet_function function);
MOONLET_API moonlet_status moonlet_object_free(moonlet_object object);
/* The error value of this thread's last MOONLET_SCRIPT_ERROR; nil otherwise. */
MOONLET_API moonlet_status moonlet_error_value(moonlet_value* value);

/* --- tensors -----------------------------------------------------------------------------------
 */

/* A new tensor; contents undefined, or zeros where the interpreter that runs has limits. `device`
   is "cpu", "cuda:1"; null: the default one. */
MOONLET_API moonlet_status moonlet_tensor_empty(const int64_t* sizes, int32_t rank, int32_t dtype,
                                                const char* device, moonlet_tensor* tensor);
/* A new tensor on the CPU with a copy of elements that lie one after another, row-major. */
MOONLET_API moonlet_status moonlet_tensor_copy_of(const void* data, const int64_t* sizes,
                                                  int32_t rank, int32_t dtype,
                                                  moonlet_tensor* tensor);
/* A tensor on the host's own memory, which is not copied. `strides` count elements, null:
   row-major; none is negative. `deleter`, which may be null, is called once with `user` when the
   last user of the memory has gone, on whatever thread; when this call fails, it is not called. */
MOONLET_API moonlet_status moonlet_tensor_from_memory(void* data, const int64_t* sizes,
                                                      const int64_t* strides, int32_t rank,
                                                      int32_t dtype, void (*deleter)(void* user),
                                                      void* user, moonlet_tensor* tensor);
/* Another handle of the same tensor. */
MOONLET_API moonlet_status moonlet_tensor_share(moonlet_tensor tensor, moonlet_tensor* other);
MOONLET_API moonlet_status moonlet_tensor_free(moonlet_tensor tensor);

typedef struct moonlet_tensor_info {
  size_t size;
  int32_t dtype;
  int32_t rank;
  int64_t numel;
  int64_t sizes[MOONLET_MAX_DIMS];
  int64_t strides[MOONLET_MAX_DIMS]; /* in elements */
  void* data; /* the first element; null where the memory is not the host's, or read-only */
  const void* readable; /* the same, also of read-only memory */
  int32_t contiguous;
  int32_t requires_grad;
  char device[16]; /* "cpu", "cuda:0" */
} moonlet_tensor_info;
/* All of that at once; fields beyond info->size are left alone. */
MOONLET_API moonlet_status moonlet_tensor_describe(moonlet_tensor tensor,
                                                   moonlet_tensor_info* info);
MOONLET_API moonlet_status moonlet_tensor_rank(moonlet_tensor tensor, int32_t* rank);
MOONLET_API moonlet_status moonlet_tensor_dtype(moonlet_tensor tensor, int32_t* dtype);
MOONLET_API moonlet_status moonlet_tensor_numel(moonlet_tensor tensor, int64_t* numel);
/* One size or stride; a negative dim counts from the end. */
MOONLET_API moonlet_status moonlet_tensor_size(moonlet_tensor tensor, int32_t dim, int64_t* size);
MOONLET_API moonlet_status moonlet_tensor_stride(moonlet_tensor tensor, int32_t dim,
                                                 int64_t* stride);
/* The first element of a tensor whose elements lie one after another, row-major, in the host's own
   memory; refused for others, for another dtype than `dtype` and for read-only memory. The tape
   does not see what is written through it. */
MOONLET_API moonlet_status moonlet_tensor_data(moonlet_tensor tensor, int32_t dtype, void** data);
/* Copies all elements, row-major, from and to memory of `bytes` bytes, which must be as many as the
   elements take; from any device and any strides. The copy into a tensor is an in-place op. */
MOONLET_API moonlet_status moonlet_tensor_read(moonlet_tensor tensor, void* memory, size_t bytes);
MOONLET_API moonlet_status moonlet_tensor_write(moonlet_tensor tensor, const void* memory,
                                                size_t bytes);
/* The only element of a tensor, as MOONLET_BOOLEAN, INTEGER, NUMBER or COMPLEX. */
MOONLET_API moonlet_status moonlet_tensor_item(moonlet_tensor tensor, moonlet_value* value);
/* Converted and moved; the tensor itself where nothing changes. `dtype` -1 and a null device keep
   what it has. */
MOONLET_API moonlet_status moonlet_tensor_to(moonlet_tensor tensor, int32_t dtype,
                                             const char* device, moonlet_tensor* result);
/* "float32", and the other way, by the names that scripts use; how many bytes an element takes. */
MOONLET_API moonlet_status moonlet_dtype_name(int32_t dtype, const char** name);
MOONLET_API moonlet_status moonlet_dtype_from_name(const char* name, int32_t* dtype);
MOONLET_API moonlet_status moonlet_dtype_size(int32_t dtype, size_t* bytes);

/* DLPack, without a copy; the structs are those of DLPack's own dlpack.h, or of moonlet/dlpack.h.
   What to_dlpack gives is the caller's, whose call of its deleter ends the loan. from_dlpack takes
   it over: it is not the caller's any more once the call has succeeded. The unversioned struct is
   for producers and consumers from before DLPack 1.0, and carries no read-only memory. Work of a
   device that is under way is the business of who hands over: wait for it, or use the same stream.
 */
struct DLManagedTensorVersioned;
struct DLManagedTensor;
MOONLET_API moonlet_status moonlet_to_dlpack(moonlet_tensor tensor,
                                             struct DLManagedTensorVersioned** managed);
MOONLET_API moonlet_status moonlet_from_dlpack(struct DLManagedTensorVersioned* managed,
                                               moonlet_tensor* tensor);
MOONLET_API moonlet_status moonlet_to_dlpack_unversioned(moonlet_tensor tensor,
                                                         struct DLManagedTensor** managed);
MOONLET_API moonlet_status moonlet_from_dlpack_unversioned(struct DLManagedTensor* managed,
                                                           moonlet_tensor* tensor);

/* --- ops ---------------------------------------------------------------------------------------
 */

/* The op of that name: "add", its in-place form "add_", its out form "add_out". */
MOONLET_API moonlet_status moonlet_op_find(const char* name, moonlet_op* op);
/* How many ops there are, and the one at a position from 0. */
MOONLET_API moonlet_status moonlet_op_count(size_t* count);
MOONLET_API moonlet_status moonlet_op_at(size_t position, moonlet_op* op);
/* "add", and "add(Operand x, Operand other) -> Tensor"; valid for ever. */
MOONLET_API moonlet_status moonlet_op_name(moonlet_op op, const char** name);
MOONLET_API moonlet_status moonlet_op_schema(moonlet_op op, const char** schema);
/* Calls an op: recorded on the tape and seen by modes, as in a script. Arguments stand in the order
   of the schema, results (of the out form) before them; nil, or none at the end, is the default.
   Where a schema says DType, Device or MemoryFormat, a string is taken, too; an integer is a whole
   `int[2]`. Results as in moonlet_run. */
MOONLET_API moonlet_status moonlet_op_call(moonlet_op op, const moonlet_value* arguments,
                                           size_t argument_count, moonlet_value* results,
                                           size_t capacity, size_t* count);
/* The same with `names[i]`, where it is not null, as the name of argument i. */
MOONLET_API moonlet_status moonlet_op_call_named(moonlet_op op, const moonlet_value* arguments,
                                                 const char* const* names, size_t argument_count,
                                                 moonlet_value* results, size_t capacity,
                                                 size_t* count);

/* --- gradients ---------------------------------------------------------------------------------
 */

MOONLET_API moonlet_status moonlet_tensor_set_requires_grad(moonlet_tensor tensor, int32_t on);
/* The same data without history; it shares memory. */
MOONLET_API moonlet_status moonlet_tensor_detach(moonlet_tensor tensor, moonlet_tensor* result);
/* The gradient, a null handle where there is none; sets or (null) clears it. */
MOONLET_API moonlet_status moonlet_tensor_grad(moonlet_tensor tensor, moonlet_tensor* grad);
MOONLET_API moonlet_status moonlet_tensor_set_grad(moonlet_tensor tensor, moonlet_tensor grad);
enum { MOONLET_RETAIN_GRAPH = 1, MOONLET_CREATE_GRAPH = 2, MOONLET_ALLOW_UNUSED = 4 };
/* Adds the gradients of the outputs to all leaves that require grad. `gradients` has one for each
   output, or is null: 1, for outputs of one element. */
MOONLET_API moonlet_status moonlet_backward(const moonlet_tensor* outputs,
                                            const moonlet_tensor* gradients, size_t count,
                                            int32_t flags);
/* The gradients with respect to `inputs`, one for each, to `results`; no leaf's is touched. With
   MOONLET_ALLOW_UNUSED one that is not reached is a null handle. */
MOONLET_API moonlet_status moonlet_gradients(const moonlet_tensor* outputs,
                                             const moonlet_tensor* gradients, size_t output_count,
                                             const moonlet_tensor* inputs, size_t input_count,
                                             int32_t flags, moonlet_tensor* results);
/* Whether ops of this thread (in a host function: of the interpreter) are recorded; `before` gets
   what it was. */
MOONLET_API moonlet_status moonlet_set_grad_enabled(int32_t on, int32_t* before);
/* Calls `hook` with the gradient of the tensor's present value at each backward that computes it.
   `grad` is valid during the call; where the hook sets `replacement`, which is a null handle
   before, to a tensor, that one is Moonlet's and takes the gradient's part. A hook that does not
   return MOONLET_OK ends the backward. `free_user`, which may be null, is called with `user` once
   no backward can reach the hook any more, and also when this call fails. */
typedef moonlet_status (*moonlet_gradient_hook)(void* user, moonlet_tensor grad,
                                                moonlet_tensor* replacement);
MOONLET_API moonlet_status moonlet_tensor_register_hook(moonlet_tensor tensor,
                                                        moonlet_gradient_hook hook, void* user,
                                                        void (*free_user)(void* user),
                                                        moonlet_hook* handle);
/* Takes the hook away, if it is still there, and frees the handle; to free it alone, which leaves
   the hook, `keep` is not 0. */
MOONLET_API moonlet_status moonlet_hook_free(moonlet_hook handle, int32_t keep);
/* Runs `body`, whose ops on tensors of that type of device ("cpu", "cuda") compute in `dtype` where
   that suits them: MOONLET_BFLOAT16 or MOONLET_FLOAT16. Its status is the result's. */
MOONLET_API moonlet_status moonlet_under_autocast(const char* device, int32_t dtype,
                                                  moonlet_status (*body)(void* user), void* user);

/* --- programs ----------------------------------------------------------------------------------
 */

/* Loads a file that `program:save` or moonlet_program_save wrote; such a file may come from
   anybody. `max_bytes` bounds what reading may take; 0: 512 MiB, or 256 times the file. */
MOONLET_API moonlet_status moonlet_program_load(const char* path, int64_t max_bytes,
                                                moonlet_program* program);
MOONLET_API moonlet_status moonlet_program_save(moonlet_program program, const char* path);
MOONLET_API moonlet_status moonlet_program_free(moonlet_program program);
MOONLET_API moonlet_status moonlet_program_counts(moonlet_program program, size_t* inputs,
                                                  size_t* outputs);
typedef struct moonlet_end_info {
  size_t size;
  int32_t dtype;
  int32_t rank;
  int64_t sizes[MOONLET_MAX_DIMS]; /* -1: may be another at each run */
  char device[16];
  const char* name; /* "" where it has none; valid while the program's handle is */
} moonlet_end_info;
/* An input, or output, by its position from 0. */
MOONLET_API moonlet_status moonlet_program_input(moonlet_program program, size_t position,
                                                 moonlet_end_info* info);
MOONLET_API moonlet_status moonlet_program_output(moonlet_program program, size_t position,
                                                  moonlet_end_info* info);
/* What goes in and out, the ops, the memory of a run, for people. */
MOONLET_API moonlet_status moonlet_program_text(moonlet_program program, const char** text);
/* A parameter by its name, and another tensor of its kind in its position. */
MOONLET_API moonlet_status moonlet_program_parameter(moonlet_program program, const char* name,
                                                     moonlet_tensor* tensor);
MOONLET_API moonlet_status moonlet_program_set_parameter(moonlet_program program, const char* name,
                                                         moonlet_tensor tensor);

/* The memory of one thread for a program. It keeps the program alive. */
MOONLET_API moonlet_status moonlet_context_new(moonlet_program program, moonlet_context* context);
MOONLET_API moonlet_status moonlet_context_free(moonlet_context context);
typedef struct moonlet_buffer {
  void* data; /* elements one after another, row-major; those of inputs are only read */
  int32_t dtype;
  int32_t rank;
  const int64_t* sizes;
} moonlet_buffer;
/* Runs the program on the host's own memory, which is copied from and to. After the first run of a
   context nothing is allocated and no lock is taken. For programs on the CPU. */
MOONLET_API moonlet_status moonlet_context_run(moonlet_context context,
                                               const moonlet_buffer* inputs, size_t input_count,
                                               const moonlet_buffer* outputs, size_t output_count);
/* The same on tensors, on any device: the results are new ones. `outputs` has room for all. */
MOONLET_API moonlet_status moonlet_context_run_tensors(moonlet_context context,
                                                       const moonlet_tensor* inputs,
                                                       size_t input_count, moonlet_tensor* outputs,
                                                       size_t output_count);

/* --- threads, random numbers, memory -----------------------------------------------------------
 */

/* How many CPU threads ops that this thread calls may use: from 1 to 1024. */
MOONLET_API moonlet_status moonlet_num_threads(int32_t* count);
MOONLET_API moonlet_status moonlet_set_num_threads(int32_t count);
/* Seeds the random numbers of this thread, or of the interpreter that runs on it. */
MOONLET_API moonlet_status moonlet_manual_seed(uint64_t seed);
/* How many devices of a kind ("cuda") can be used; 0 where there are none. */
MOONLET_API moonlet_status moonlet_device_count(const char* kind, int32_t* count);

/* Where the memory of tensors comes from. Both functions are called from any thread. `allocate`
   returns memory aligned to 64 bytes (256 on CUDA devices), or null: MOONLET_NO_MEMORY. What it
   writes to `context` comes back with the memory. */
typedef struct moonlet_allocator {
  size_t size;
  void* user;
  void* (*allocate)(void* user, size_t bytes, int32_t device_index, void** context);
  void (*deallocate)(void* user, void* data, size_t bytes, int32_t device_index, void* context);
} moonlet_allocator;
/* Takes memory for a kind of device ("cpu", "cuda") from there from now on; null: Moonlet's own.
   The struct is copied; its functions and `user` must stay for as long as the process lives. */
MOONLET_API moonlet_status moonlet_set_allocator(const char* kind,
                                                 const moonlet_allocator* allocator);

#ifdef __cplusplus
}
#endif

#endif
