// interp/state/output.h: what scripts print goes to a function of the host.
#pragma once

#include <cstdio>
#include <vector>

#include "interp/embed/options.h"
#include "lua.hpp"

namespace moonlet {

struct StateData;

// Writes a text for a stream: to the host's function, or the standard stream. noexcept: what the
// function throws is dropped.
void write_output(const StateData& data, Stream stream, std::string_view text) noexcept;

// Makes print, io.stdout, io.stderr and io.write of a state whose options have an output function
// use that.
void redirect_output(lua_State* L);

// The streams that redirect_output has opened. Closed after the Lua state.
class RedirectedStreams {
 public:
  RedirectedStreams() = default;
  RedirectedStreams(const RedirectedStreams&) = delete;
  RedirectedStreams& operator=(const RedirectedStreams&) = delete;
  ~RedirectedStreams();
  // A stream whose text goes to the output function of `data`.
  std::FILE* open(const StateData& data, Stream stream);

 private:
  struct Target {
    const StateData& data;
    Stream stream;
    std::FILE* file;
  };
  static ssize_t write(void* target, const char* text, size_t size);
  std::vector<Target*> targets_;
};

}  // namespace moonlet
