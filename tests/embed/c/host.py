# tests/embed/c/host.py: a host in Python, by ctypes, as an example.  usage: host.py LIBRARY
import array
import ctypes as c
import sys

lib = c.CDLL(sys.argv[1])

NIL, BOOLEAN, INTEGER, NUMBER, STRING, TENSOR = range(6)
FLOAT32 = 13


class Bytes(c.Structure):
    _fields_ = [("data", c.c_void_p), ("size", c.c_size_t)]


class As(c.Union):
    _fields_ = [("boolean", c.c_int32), ("integer", c.c_int64), ("number", c.c_double),
                ("handle", c.c_void_p), ("string", Bytes)]


class Value(c.Structure):
    _fields_ = [("kind", c.c_int32), ("reserved", c.c_int32), ("value", As)]

    def get(self):
        if self.kind == STRING:
            return c.string_at(self.value.string.data, self.value.string.size)
        return {NIL: None, BOOLEAN: bool(self.value.boolean), INTEGER: self.value.integer,
                NUMBER: self.value.number}.get(self.kind, self.value.handle)


assert c.sizeof(Value) == 24
CALLBACK = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.POINTER(Value), c.c_size_t, c.c_void_p)
lib.moonlet_error_message.restype = c.c_char_p
lib.moonlet_error_traceback.restype = c.c_char_p
lib.moonlet_live_handles.restype = c.c_size_t


class MoonletError(Exception):
    pass


def check(status):
    if status != 0:
        raise MoonletError(lib.moonlet_error_message().decode())


class Interpreter:
    def __init__(self):
        self.handle = c.c_void_p()
        self.callbacks = []
        check(lib.moonlet_open(None, c.byref(self.handle)))

    def close(self):
        check(lib.moonlet_close(self.handle))

    def run(self, code):
        code = code.encode()
        results, count = (Value * 8)(), c.c_size_t()
        check(lib.moonlet_run(self.handle, code, c.c_size_t(len(code)), b"host.py", results,
                              c.c_size_t(8), c.byref(count)))
        return [results[i].get() for i in range(min(count.value, 8))]

    def set_tensor(self, name, tensor):
        value = Value(TENSOR)
        value.value.handle = tensor
        check(lib.moonlet_set(self.handle, name.encode(), c.byref(value)))

    def register(self, name, function):
        def call(_user, _lua, arguments, count, results):
            try:
                value = Value(NUMBER)
                value.value.number = function(*[arguments[i].get() for i in range(count)])
                return lib.moonlet_results_push(c.c_void_p(results), c.byref(value))
            except Exception as error:  # an exception must not cross C
                lib.moonlet_set_error(str(error).encode())
                return 2
        self.callbacks.append(CALLBACK(call))
        check(lib.moonlet_register(self.handle, name.encode(), self.callbacks[-1], None, None))


def tensor_on(floats):
    """A tensor on an array's memory, which must live as long."""
    address, count = floats.buffer_info()
    tensor = c.c_void_p()
    check(lib.moonlet_tensor_from_memory(c.c_void_p(address), (c.c_int64 * 1)(count), None, 1,
                                         FLOAT32, None, None, c.byref(tensor)))
    return tensor


lua = Interpreter()
data = array.array("f", [1, 2, 3])
x = tensor_on(data)
lua.set_tensor("x", x.value)
assert lua.run("x:mul_(10) return x:sum():item(), 'done', true, 7") == [60.0, b"done", True, 7]
assert data[2] == 30
lua.register("power", lambda a, b: a ** b)
assert lua.run("return power(2, 10)") == [1024.0]
for code, part in (("error 'no luck'", "host.py:1: no luck"), ("power()", "positional argument")):
    try:
        lua.run(code)
        raise SystemExit("no error came")
    except MoonletError as error:
        assert part in str(error), error
check(lib.moonlet_tensor_free(x))
lua.close()
assert lib.moonlet_live_handles() == 0
print("python: all well")
