// interp/distributed/call_table.cpp: calls as scripts write them, and whether they fit their
// tensors.
#include "interp/distributed/call_table.h"

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "interp/binding/tensor/tensor_userdata.h"
#include "tensor/core/error.h"

namespace moonlet::distributed {
namespace {

constexpr std::array<const char*, 9> kKinds = {"all_reduce", "reduce_scatter", "broadcast",
                                               "reduce",     "all_gather",     "exchange",
                                               "barrier",    "send",           "receive"};
constexpr std::array<const char*, 7> kReductions = {"sum",  "product", "min", "max",
                                                    "band", "bor",     "bxor"};

template <size_t N>
int choice(lua_State* L, int index, const char* field, const std::array<const char*, N>& names) {
  lua_getfield(L, index, field);
  const char* name = luaL_optstring(L, -1, names[0]);
  for (size_t i = 0; i < N; ++i) {
    if (std::strcmp(name, names[i]) != 0) continue;
    lua_pop(L, 1);
    return static_cast<int>(i);
  }
  fail("distributed: there is no ", field, " '", name, "'");
}

int64_t integer_field(lua_State* L, int index, const char* field) {
  lua_getfield(L, index, field);
  const int64_t out = luaL_optinteger(L, -1, 0);
  lua_pop(L, 1);
  return out;
}

bool flag_field(lua_State* L, int index, const char* field) {
  lua_getfield(L, index, field);
  const bool out = lua_toboolean(L, -1) != 0;
  lua_pop(L, 1);
  return out;
}

std::vector<size_t> counts_field(lua_State* L, int index, const char* field) {
  std::vector<size_t> out;
  if (lua_getfield(L, index, field) == LUA_TTABLE)
    for (const int64_t count : integers_at(L, lua_gettop(L))) {
      check(count >= 0, "distributed: a count is negative");
      out.push_back(static_cast<size_t>(count));
    }
  lua_pop(L, 1);
  return out;
}

// The tensor of a field, or an undefined one: contiguous, on the device of the stream or on the
// host.
Tensor tensor_field(lua_State* L, int index, const char* field,
                    const std::optional<DeviceStream>& stream) {
  Tensor out;
  if (lua_getfield(L, index, field) != LUA_TNIL) {
    out = binding::check_tensor(L, lua_gettop(L), "distributed");
    const Device wanted =
        stream ? Device{stream_type(), stream->device} : Device{DeviceType::CPU, 0};
    check(out.device() == wanted && out.is_contiguous(), "distributed: a contiguous tensor on ",
          wanted, " is expected");
  }
  lua_pop(L, 1);
  return out;
}

size_t sum_of(const std::vector<size_t>& counts) {
  size_t out = 0;
  for (const size_t count : counts) out += count;
  return out;
}

size_t elements(const Tensor& x) { return x.defined() ? static_cast<size_t>(x.numel()) : 0; }

// What a call reads and writes must lie in its tensors, whatever the library says.
void check_sizes(const Call& call, const Tensor& in, const Tensor& out, size_t size) {
  size_t read = call.count, written = call.count;
  if (call.kind == Kind::AllGather) written *= size;
  if (call.kind == Kind::Exchange) {
    read = call.same_to_all ? call.count : sum_of(call.sent);
    written = sum_of(call.received);
  }
  if (call.kind == Kind::ReduceScatter) read = sum_of(call.sent);
  if (call.kind == Kind::Barrier || call.kind == Kind::Receive || call.kind == Kind::Broadcast)
    read = 0;
  if (call.kind == Kind::Barrier || call.kind == Kind::Send ||
      (call.kind == Kind::Reduce && !out.defined()))
    written = 0;
  check(elements(in) >= read && elements(out) >= written,
        "distributed: a tensor is too small for a call");
  for (const Tensor* x : {&in, &out})
    check(!x->defined() || x->dtype() == call.dtype, "distributed: dtypes differ");
  const bool by_ranks = call.kind == Kind::Exchange || call.kind == Kind::ReduceScatter;
  check(!by_ranks || call.sent.size() == size, "distributed: a count for each rank is expected");
  check(call.kind != Kind::Exchange || call.received.size() == size,
        "distributed: a count for each rank is expected");
  check(call.root < static_cast<int>(size), "distributed: there is no such rank");
}

}  // namespace

std::vector<int64_t> integers_at(lua_State* L, int index) {
  luaL_checktype(L, index, LUA_TTABLE);
  std::vector<int64_t> out;
  for (lua_Integer i = 1; i <= luaL_len(L, index); ++i) {
    lua_rawgeti(L, index, i);
    out.push_back(luaL_checkinteger(L, -1));
    lua_pop(L, 1);
  }
  return out;
}

CallName call_name_at(lua_State* L, int index) {
  return {static_cast<Kind>(choice(L, index, "kind", kKinds)),
          static_cast<Reduction>(choice(L, index, "reduction", kReductions))};
}

Call call_at(lua_State* L, int index, size_t size, const std::optional<DeviceStream>& stream,
             CallTensors& tensors) {
  luaL_checktype(L, index, LUA_TTABLE);
  const CallName name = call_name_at(L, index);
  Call call;
  call.kind = name.kind;
  call.reduction = name.reduction;
  call.tag = static_cast<uint32_t>(integer_field(L, index, "tag"));
  call.root = static_cast<int>(integer_field(L, index, "root"));
  call.count = static_cast<size_t>(integer_field(L, index, "count"));
  call.sent = counts_field(L, index, "sent");
  call.received = counts_field(L, index, "received");
  call.ordered = flag_field(L, index, "ordered");
  call.same_to_all = flag_field(L, index, "same_to_all");
  lua_getfield(L, index, "what");
  size_t length = 0;
  const char* what = luaL_checklstring(L, -1, &length);
  call.what.assign(what, length);
  lua_pop(L, 1);
  const auto kept = std::make_shared<CallTensors>();
  const Tensor &in = kept->in = tensor_field(L, index, "input", stream),
               &out = kept->out = tensor_field(L, index, "output", stream);
  if (in.defined() || out.defined()) call.dtype = in.defined() ? in.dtype() : out.dtype();
  check_sizes(call, in, out, size);
  if (out.defined()) {
    check(!out.storage().is_read_only(), "distributed: the tensor that is written is read-only");
    out.storage().bump_version();
  }
  call.in = in.defined() ? in.raw() : nullptr;
  call.out = out.defined() ? out.raw() : nullptr;
  tensors = *kept;
  call.memory = kept;
  return call;
}

}  // namespace moonlet::distributed
