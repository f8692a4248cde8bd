-- stdlib/torch7/timer.lua: torch.Timer, torch.tic and torch.toc: seconds that passed and that the
-- process used.

local class = require "moonlet.torch7.class"
local namespace = require "moonlet.torch7.namespace"
local system = require "moonlet.system"

local Timer = class.class("torch.Timer", namespace)

-- Real seconds, and those of the processor, which no system tells apart here.
local function now() return system.clock(), os.clock() end

function Timer:__init() self:reset() end

function Timer:reset()
  self.real, self.user = 0, 0
  self.real_start, self.user_start = now()
  self.running = true
  return self
end

function Timer:time()
  local real, user = self.real, self.user
  if self.running then
    local real_now, user_now = now()
    real, user = real + real_now - self.real_start, user + user_now - self.user_start
  end
  return { real = real, user = user, sys = 0 }
end

function Timer:stop()
  local time = self:time()
  self.real, self.user, self.running = time.real, time.user, false
  return self
end

function Timer:resume()
  if not self.running then
    self.real_start, self.user_start = now()
    self.running = true
  end
  return self
end

function Timer:__tostring__()
  return "torch.Timer [status: " .. (self.running and "running" or "stopped") .. "]"
end

local started = now()
function namespace.tic() started = now() end
function namespace.toc() return (now()) - started end
