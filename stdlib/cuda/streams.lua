-- stdlib/cuda/streams.lua: streams and events of CUDA devices. A stream is a device and a number of
-- the backend, so that two objects may be the same stream.

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local core = ml._cuda
local fail, lookup = options.fail, class.lookup

local streams = {}

local read_stream = signature("cuda.Stream(int|string? device=nil, int priority=0)", "Stream")

--- A queue of work of one device, which the device may do at the same time as that of other
--- streams. It is one of a pool of 32 for each device and priority, given out in turn and never
--- destroyed. The default stream, 0, is where work goes unless another is current. Work that needs
--- what other streams make waits for events. Two objects of the same stream are equal.
--- > s = ml.cuda.Stream { priority = -1 }  -- needs cuda
--- > s.device
---   cuda:0
---@class moonlet.cuda.Stream
---@field device string its device: "cuda:0"
---@field device_index integer the device's number
---@field stream_id integer its number among those of the device, 0 for the default stream
---@field priority integer its priority; lower ones come first
---@field cuda_stream integer the runtime's handle, for code outside Lua
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@param priority? integer 0 or less, lower ones first; beyond `Stream.priority_range()` its
---   nearest end
local Stream = class "Stream"
streams.Stream = Stream

signature.add_type("Stream", "a stream of ml.cuda", function(value)
  return class.is_instance(value, Stream) and value or nil
end)

local function position(stream, device, id)
  stream.device_index, stream.stream_id, stream.device = device, id, "cuda:" .. device
  return stream
end

local function stream_of(device, id) return position(setmetatable({}, Stream), device, id) end

function Stream:init(...)
  local device, priority = read_stream(...)
  local index = core._index(device, "Stream")
  position(self, index, core._stream(index, priority))
end

function Stream:__index(key)
  if key == "priority" then
    return core._priority(rawget(self, "device_index"), rawget(self, "stream_id"))
  elseif key == "cuda_stream" then
    return core._handle(rawget(self, "device_index"), rawget(self, "stream_id"))
  end
  return lookup(self, key)
end

function Stream.__eq(a, b)
  return class.is_instance(a, Stream) and class.is_instance(b, Stream)
    and a.device_index == b.device_index and a.stream_id == b.stream_id
end

function Stream:__tostring()
  return ("Stream (%s, number %d)"):format(self.device, self.stream_id)
end

--- The least and the greatest priority that streams can have: 0 and -3 on most devices.
--- > least = ml.cuda.Stream.priority_range()  -- needs cuda
--- > least
---   0
---@return integer least
---@return integer greatest
function Stream.priority_range() return core._priority_range() end

--- Whether the device has done all work of the stream.
--- > s = ml.cuda.Stream()  -- needs cuda
--- > s:synchronize()
--- > s:query()
---   true
---@return boolean
function Stream:query() return core._query(self.device_index, self.stream_id) end

--- Waits until the device has done all work of the stream.
--- > ml.cuda.Stream():synchronize()  -- needs cuda
function Stream:synchronize() core._synchronize(self.device_index, self.stream_id) end

local read_wait_event = signature("Stream:wait_event(Event event)")
local read_wait_stream = signature("Stream:wait_stream(Stream stream)")
local read_record_event = signature("Stream:record_event(Event? event=nil)")

--- Makes work put into the stream from now on wait for an event; the script does not wait.
--- > ml.cuda.Stream():wait_event(ml.cuda.current_stream():record_event())  -- needs cuda
---@param event moonlet.cuda.Event the event
function Stream:wait_event(...) read_wait_event(...):wait(self) end

--- Makes work put into the stream from now on wait for all work that another stream has now.
--- > ml.cuda.Stream():wait_stream(ml.cuda.current_stream())  -- needs cuda
---@param stream moonlet.cuda.Stream the other stream
function Stream:wait_stream(...)
  local other = read_wait_stream(...)
  core._wait_stream(self.device_index, self.stream_id, other.device_index, other.stream_id)
end

--- Records an event in the stream and returns it.
--- > event = ml.cuda.Stream():record_event()  -- needs cuda
---@param event? moonlet.cuda.Event the event; a new one unless given
---@return moonlet.cuda.Event event
function Stream:record_event(...)
  local event = read_record_event(...) or streams.Event()
  event:record(self)
  return event
end

local read_event = signature("cuda.Event(bool enable_timing=false, bool blocking=false)", "Event")

--- A moment in a stream: when all work is done that was in it when `record` was called. It belongs
--- to the device of the first stream that records it. One that was never recorded has happened.
--- > e = ml.cuda.Event { enable_timing = true }  -- needs cuda
--- > e:query()
---   true
---@class moonlet.cuda.Event
---@field device string|nil the device it was recorded on: "cuda:0"; nil before
---@param enable_timing? boolean whether `elapsed_time` can use it
---@param blocking? boolean whether `synchronize` sleeps instead of polling
local Event = class "Event"
streams.Event = Event

signature.add_type("Event", "an event of ml.cuda", function(value)
  return class.is_instance(value, Event) and value or nil
end)

function Event:init(...)
  local timing, blocking = read_event(...)
  self._event = core._event(timing, blocking)
end

function Event:__index(key)
  if key == "device" then
    local index = core._event_device(rawget(self, "_event"))
    return index and "cuda:" .. index
  end
  return lookup(self, key)
end

function Event:__tostring()
  return ("Event (%s)"):format(self.device or "not recorded")
end

local read_record = signature("Event:record(Stream? stream=nil)")
local read_wait = signature("Event:wait(Stream? stream=nil)")
local read_elapsed = signature("Event:elapsed_time(Event end_event)")

--- Records the event in a stream: it happens when all work is done that the stream has now.
--- > ml.cuda.Event():record()  -- needs cuda
---@param stream? moonlet.cuda.Stream the stream; the current one unless given
function Event:record(...)
  local stream = read_record(...) or streams.current_stream()
  core._event_record(self._event, stream.device_index, stream.stream_id)
end

--- Makes work put into a stream from now on wait for the event; the script does not wait.
--- > ml.cuda.Event():wait()  -- needs cuda
---@param stream? moonlet.cuda.Stream the stream; the current one unless given
function Event:wait(...)
  local stream = read_wait(...) or streams.current_stream()
  core._event_wait(self._event, stream.device_index, stream.stream_id)
end

--- Whether the event has happened.
--- > ml.cuda.Event():query()  -- needs cuda
---   true
---@return boolean
function Event:query() return core._event_query(self._event) end

--- Waits until the event has happened.
--- > ml.cuda.Event():synchronize()  -- needs cuda
function Event:synchronize() core._event_synchronize(self._event) end

--- The time from this event to a later one, in milliseconds. Both are made with `enable_timing =
--- true`, on one device, and have happened.
--- > a, b = ml.cuda.Event(true), ml.cuda.Event(true)  -- needs cuda
--- > a:record()
--- > b:record()
--- > b:synchronize()
--- > a:elapsed_time(b) >= 0
---   true
---@param end_event moonlet.cuda.Event the later event
---@return number
function Event:elapsed_time(...)
  return core._event_elapsed(self._event, read_elapsed(...)._event)
end

local read_current = signature("cuda.current_stream(int|string? device=nil)", "current_stream")
local read_default = signature("cuda.default_stream(int|string? device=nil)", "default_stream")
local read_set = signature("cuda.set_stream(Stream? stream=nil)", "set_stream")

--- The stream that work of this coroutine goes to on a device. New coroutines begin with those of
--- the coroutine that resumes them first.
--- > ml.cuda.current_stream() == ml.cuda.default_stream()  -- needs cuda
---   true
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@return moonlet.cuda.Stream
function streams.current_stream(...)
  local index = core._index(read_current(...), "current_stream")
  return stream_of(index, core._current_stream(index))
end

--- The stream that work goes to on a device unless another is set. Its work and that of the streams
--- of `ml.cuda.Stream` do not wait for each other.
--- > ml.cuda.default_stream().stream_id  -- needs cuda
---   0
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@return moonlet.cuda.Stream
function streams.default_stream(...)
  return stream_of(core._index(read_default(...), "default_stream"), 0)
end

--- Makes a stream the current one of its device, and that device the current one, from now on;
--- `ml.cuda.stream` does so for a while.
--- > ml.cuda.set_stream(ml.cuda.default_stream())  -- needs cuda
---@param stream moonlet.cuda.Stream|nil the stream; nil changes nothing
---@see cuda.stream
function streams.set_stream(...)
  local stream = read_set(...)
  if stream then core._set_stream(stream.device_index, stream.stream_id) end
end

--- Runs `f`, or the rest of the block that holds the result with `<close>`, with a stream as the
--- current one of its device, and with that device as the current one. Tensors made there belong to
--- the stream: before another stream uses them it waits (`Stream:wait_stream`), and
--- `x:record_stream(other)` keeps their memory from being used again too early.
--- > s = ml.cuda.Stream()  -- needs cuda
--- > y = ml.cuda.stream(s, function() return ml.ones(3, { device = "cuda" }) * 2 end)
--- > ml.cuda.current_stream():wait_stream(s)
--- > y:tolist()
---   {2.0, 2.0, 2.0}
---@param stream moonlet.cuda.Stream|nil the stream; nil changes nothing
---@param f? function the function to run; without it the result is held as a `<close>` variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
function streams.stream(stream, f, ...)
  if stream ~= nil and not class.is_instance(stream, Stream) then
    fail("stream: a stream of ml.cuda is expected, got %s", signature.describe(stream))
  end
  local held = stream and core._stream_guard(stream.device_index, stream.stream_id)
    or core._stream_guard()
  return options.under("stream", held, f, ...)
end

return streams
