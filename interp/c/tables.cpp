// interp/c/tables.cpp: tables and functions of the C interface, and functions of the host that
// scripts call.
#include <memory>

#include "interp/c/callbacks.h"
#include "interp/c/calls.h"
#include "interp/embed/session.h"

using namespace moonlet::c;
using moonlet::Function;
using moonlet::HostFunction;
using moonlet::Interpreter;
using moonlet::Table;
using moonlet::Value;
using moonlet::Values;

struct moonlet_result_list {
  Values values;
};

namespace {

// Calls `body(const Table&, Shared&)` inside the table's interpreter.
template <class Body>
moonlet_status with_table(moonlet_table table, const char* function, Body&& body) {
  return guarded([&] {
    auto& held = object_of<Held<Table>>(table, HandleKind::Table, function, "table");
    const Table copy = held.value;  // a metamethod may free the handle
    Shared& shared = held.shared;
    inside(shared, [&] { body(copy, shared); });
  });
}

// The handles among the arguments of a host function, freed when it has returned.
class BorrowedArguments {
 public:
  BorrowedArguments(const Values& values, Shared& shared) : count_(values.size()) {
    if (count_ > kInline) {
      more_.resize(count_);
      values_ = more_.data();
    }
    try {
      for (size_t i = 0; i < count_; ++i) put(values[i], values_[i], shared);
    } catch (...) {
      drop();
      throw;
    }
  }
  ~BorrowedArguments() { drop(); }
  BorrowedArguments(const BorrowedArguments&) = delete;
  BorrowedArguments& operator=(const BorrowedArguments&) = delete;
  const moonlet_value* data() const { return values_; }
  size_t size() const { return count_; }

 private:
  // A text is the Value's own, which stays for the whole call.
  static void put(const Value& value, moonlet_value& to, Shared& shared) {
    if (const auto* number = std::get_if<double>(&value.variant())) {
      to.kind = MOONLET_NUMBER;
      to.as.number = *number;
    } else if (const auto* text = std::get_if<std::string>(&value.variant())) {
      to.kind = MOONLET_STRING;
      to.as.string.data = text->c_str();
      to.as.string.size = text->size();
    } else {
      put_value(Value(value), to, shared);
    }
  }
  void drop() noexcept {
    for (size_t i = 0; i < count_; ++i)
      if (values_[i].kind > MOONLET_STRING) free_value(values_[i]);
  }

  static constexpr size_t kInline = 6;
  const size_t count_;
  moonlet_value inline_[kInline] = {};
  std::vector<moonlet_value> more_;
  moonlet_value* values_ = inline_;
};

HostFunction host_function(Shared& shared, moonlet_callback callback, std::shared_ptr<User> user) {
  return [&shared, callback, user = std::move(user)](const Values& values) {
    const BorrowedArguments arguments(values, shared);
    moonlet_result_list results;
    ask_host([&] {
      return callback(user->data, shared.handle, arguments.data(), arguments.size(), &results);
    });
    return std::move(results.values);
  };
}

}  // namespace

moonlet_status moonlet_table_new(moonlet_interpreter lua, moonlet_table* table) {
  const char* function = __func__;
  return guarded([&] {
    Shared& shared = interpreter_of(lua, function);
    not_null(table, function, "table");
    inside(shared, [&] {
      moonlet_value value{};
      put_value(Value(shared.lua->new_table()), value, shared);
      *table = value.as.table;
    });
  });
}

moonlet_status moonlet_table_get(moonlet_table table, const moonlet_value* key,
                                 moonlet_value* value) {
  const char* function = __func__;
  return with_table(table, function, [&](const Table& t, Shared& shared) {
    give_value(t.get(value_in(not_null(key, function, "key"), function, 0)), value, shared);
  });
}

moonlet_status moonlet_table_set(moonlet_table table, const moonlet_value* key,
                                 const moonlet_value* value) {
  const char* function = __func__;
  return with_table(table, function, [&](const Table& t, Shared&) {
    t.set(value_in(not_null(key, function, "key"), function, 0),
          value_in(not_null(value, function, "value"), function, 1));
  });
}

moonlet_status moonlet_table_get_field(moonlet_table table, const char* name,
                                       moonlet_value* value) {
  const char* function = __func__;
  return with_table(table, function, [&](const Table& t, Shared& shared) {
    give_value(t.get(text_in(name, function, "name")), value, shared);
  });
}

moonlet_status moonlet_table_set_field(moonlet_table table, const char* name,
                                       const moonlet_value* value) {
  const char* function = __func__;
  return with_table(table, function, [&](const Table& t, Shared&) {
    t.set(text_in(name, function, "name"),
          value_in(not_null(value, function, "value"), function, 0));
  });
}

moonlet_status moonlet_table_get_index(moonlet_table table, int64_t index, moonlet_value* value) {
  return with_table(table, __func__, [&](const Table& t, Shared& shared) {
    give_value(t.get(index), value, shared);
  });
}

moonlet_status moonlet_table_set_index(moonlet_table table, int64_t index,
                                       const moonlet_value* value) {
  const char* function = __func__;
  return with_table(table, function, [&](const Table& t, Shared&) {
    t.set(index, value_in(not_null(value, function, "value"), function, 0));
  });
}

moonlet_status moonlet_table_length(moonlet_table table, int64_t* length) {
  return with_table(table, __func__, [&](const Table& t, Shared&) { give(length, t.length()); });
}

moonlet_status moonlet_table_next(moonlet_table table, moonlet_value* key, moonlet_value* value) {
  const char* function = __func__;
  return with_table(table, function, [&](const Table& t, Shared& shared) {
    const Value before = value_in(not_null(key, function, "key"), function, 0);
    not_null(value, function, "value");
    Value next_key, next_value;
    if (!shared.lua) moonlet::fail("the interpreter of this value is closed");
    auto& session = moonlet::detail::Session::of(shared.lua->state());
    session.protect([&](lua_State* L) {
      session.push(L, t);
      session.push(L, before);
      if (lua_next(L, -2) == 0) return;
      next_key = session.take(L, -2);
      next_value = session.take(L, -1);
    });
    returned_texts().clear();
    moonlet_value out_key{}, out_value{};
    put_value(std::move(next_key), out_key, shared);
    try {
      put_value(std::move(next_value), out_value, shared);
    } catch (...) {
      free_value(out_key);
      throw;
    }
    free_value(*key);
    *key = out_key;
    *value = out_value;
  });
}

// --- functions -----------------------------------------------------------------------------------

moonlet_status moonlet_function_new(moonlet_interpreter lua, moonlet_callback callback, void* user,
                                    void (*free_user)(void* user), moonlet_function* function) {
  const char* name = __func__;
  return guarded([&] {
    auto held = std::make_shared<User>(user, free_user);
    Shared& shared = interpreter_of(lua, name);
    if (callback == nullptr) refuse_null(name, "callback");
    not_null(function, name, "function");
    inside(shared, [&] {
      moonlet_value value{};
      put_value(Value(shared.lua->make_function(host_function(shared, callback, std::move(held)))),
                value, shared);
      *function = value.as.function;
    });
  });
}

moonlet_status moonlet_register(moonlet_interpreter lua, const char* path,
                                moonlet_callback callback, void* user,
                                void (*free_user)(void* user)) {
  const char* name = __func__;
  return guarded([&] {
    auto held = std::make_shared<User>(user, free_user);
    Shared& shared = interpreter_of(lua, name);
    if (callback == nullptr) refuse_null(name, "callback");
    const std::string where(text_in(path, name, "path"));
    inside(shared, [&] {
      shared.lua->register_function(where, host_function(shared, callback, std::move(held)));
    });
  });
}

moonlet_status moonlet_results_push(moonlet_results results, const moonlet_value* value) {
  const char* function = __func__;
  return guarded([&] {
    Values& values = not_null(results, function, "results").values;
    const moonlet_value& given = not_null(value, function, "value");
    if (given.kind == MOONLET_NUMBER) [[likely]]
      values.emplace_back(given.as.number);
    else
      values.push_back(value_in(given, function, values.size()));
  });
}

moonlet_status moonlet_function_call(moonlet_function function, const moonlet_value* arguments,
                                     size_t argument_count, moonlet_value* results, size_t capacity,
                                     size_t* count) {
  const char* name = __func__;
  return guarded([&] {
    auto& held = object_of<Held<Function>>(function, HandleKind::Function, name, "function");
    Shared& shared = held.shared;
    inside(shared, [&] {
      const Arguments given(arguments, argument_count, name);
      // The call needs the handle no more once it has begun: a host function may free it.
      give_values(held.value.call(given.data(), given.size()), results, capacity, count, shared);
    });
  });
}
