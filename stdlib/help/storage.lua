-- stdlib/help/storage.lua: the texts of help() for storages and for the methods of tensors that
-- deal with them, which are no ops. Keyed by name; "Storage:fill" is the method of storages.

return {
  Storage = {
    calls = { "ml.Storage(size, {dtype, device})", "ml.Storage(table, {dtype, device})",
      "ml.Storage{file = path, dtype, shared = false, read_only = false, size}" },
    results = "Storage",
    doc = [[
A block of memory on a device, seen as elements of one dtype: `size` zeros, the numbers of a
table, or the bytes of a file, mapped. Writes to a mapped file stay in this process; with
`shared` they reach the file, which is made or grown when `size`, in elements, asks for it; with
`read_only` they are errors. `#s` is the number of elements; `s[i]`, from 1, reads and writes
one, seen by every tensor on the storage; ipairs walks them; `==` is identity. Fields: dtype,
device, nbytes, itemsize, is_mapped, is_shared, is_foreign (memory of a host's program),
is_read_only.]],
    examples = { "ml.Storage({1, 2, 3}, {dtype = ml.float64})" },
  },
  is_storage = {
    calls = { "ml.is_storage(value)" }, results = "bool",
    doc = "Whether a value is a storage.",
  },
  storage = {
    calls = { "x:storage()" }, results = "Storage",
    doc = [[
The storage that `x` views, in its dtype: the same value for all tensors on it, as long as a
script holds it.]],
    examples = { "ml.zeros(3):storage()[1]" },
  },
  storage_offset = {
    calls = { "x:storage_offset()" }, results = "int",
    doc = [[
How many elements of the storage come before the first one of `x`. It is a count of elements,
not a position: 0 when `x` starts at the storage's first element, which is `x:storage()[1]`.]],
  },
  data_ptr = {
    calls = { "x:data_ptr()" }, results = "int",
    doc = "The address of the first element of `x`, for code outside Lua.",
  },
  is_set_to = {
    calls = { "x:is_set_to(other)" }, results = "bool",
    doc = "Whether two tensors are the same elements of one storage, in the same shape.",
  },
  set_ = {
    calls = { "x:set_(storage, offset=0, size=nil, stride=nil)", "x:set_(tensor)", "x:set_()" },
    results = "x",
    doc = [[
Makes `x` show elements of another storage of its dtype and device, or those of a tensor, or
none. `offset` is the number of elements before the first; without `size` all behind it are
shown, without `stride` they lie in row order. Tensors with a history are refused, and leaves
that require grad while recording.]],
    examples = { "ml.empty(0):set_(ml.Storage(6), 2, {2, 2})" },
  },
  resize_ = {
    calls = { "x:resize_(size)" }, results = "x",
    doc = [[
Gives `x` another shape, in row order from its first element. Elements stay where they are; the
storage grows when it is too small, by zeros. Refused for tensors that require grad and, when it
would have to grow, for memory that is foreign, mapped or read-only.]],
    examples = { "ml.ones(2):resize_(2, 3)" },
  },
  resize_as_ = {
    calls = { "x:resize_as_(other)" }, results = "x",
    doc = "`x:resize_` to the shape of `other`.",
  },
  ["Storage:fill"] = {
    calls = { "s:fill(value)" }, results = "s",
    doc = "Sets every element.",
  },
  ["Storage:copy"] = {
    calls = { "s:copy(source)" }, results = "s",
    doc = [[
Writes the elements of `source` (a storage, a tensor of one dimension or a table, as long as
`s`) over those of `s`, converted to its dtype and moved to its device.]],
  },
  ["Storage:resize"] = {
    calls = { "s:resize(size)" }, results = "s",
    doc = [[
Changes the number of elements. Contents stay as far as they fit, new elements are 0. A smaller
size gives memory back only when no tensor views the storage. Refused for memory that is
foreign, mapped or read-only.]],
  },
  ["Storage:tolist"] = {
    calls = { "s:tolist()" }, results = "table",
    doc = "The elements as a table.",
  },
  ["Storage:size"] = {
    calls = { "s:size()" }, results = "int",
    doc = "The number of elements, as `#s`.",
  },
  ["Storage:data_ptr"] = {
    calls = { "s:data_ptr()" }, results = "int",
    doc = "The address of the first element, for code outside Lua.",
  },
  ["Storage:free"] = {
    calls = { "s:free()" }, results = "nothing",
    doc = [[
Lets go of the storage at once instead of when the collector finds the value; tensors on it keep
it.]],
  },
}
