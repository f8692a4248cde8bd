-- scripts/cartpole.lua: learns to balance a pole on a cart, by pushes to the left and to the right:
-- by policy gradient with a baseline, or by deep Q-learning (`--method dqn`).
-- Expect, with seed 1: 500 steps of 500 with both; after 200 episodes and 6 seconds by policy
-- gradient, after 278 episodes and 25 seconds by Q-learning.

local ml = require "moonlet"
local nn, optim, F = ml.nn, ml.optim, ml.nn.functional

local LIMIT = 500  -- steps of 0.02 s, after which an episode ends although the pole stands
local WINDOW, SOLVED = 30, 475  -- the learning ends when so many episodes last so long on average
local DISCOUNT = 0.99

local options = ml.args.parser {
  name = "cartpole.lua",
  summary = "Learns to balance a pole on a cart.",
  { "method", "choice", choices = { "policy", "dqn" }, default = "policy",
    help = "policy gradient with a baseline, or Q-learning with replay and a target network" },
  { "episodes", "integer", default = 1500, min = 1, help = "episodes to learn from, at most" },
  { "seed", "integer", default = 1, help = "start of the random numbers" },
  { "figure", "string", meta = "<file>", help = "draw the lengths of episodes: a .svg or .png" },
}:parse(arg)

-- The cart-pole of A. Barto, R. Sutton and C. Anderson, "Neuronlike adaptive elements that can
-- solve difficult learning control problems", 1983: position and speed of the cart, angle and
-- angular speed of the pole, by Euler's method.
local GRAVITY, CART, POLE, HALF_LENGTH, FORCE, TICK = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
local CART_FRICTION, POLE_FRICTION = 0.0005, 0.000002
local LARGEST_POSITION, LARGEST_ANGLE = 2.4, math.rad(12)

local function start()
  local state = {}
  for i = 1, 4 do state[i] = 0.1 * math.random() - 0.05 end
  return state
end

-- The state after a push to the left (action 1) or to the right (2), and whether all is lost.
local function push(state, action)
  local x, v, angle, spin = table.unpack(state)
  local sin, cos = math.sin(angle), math.cos(angle)
  local drag = CART_FRICTION * (v > 0 and 1 or v < 0 and -1 or 0)
  local force = (action == 2 and FORCE or -FORCE) - drag
  local mass = CART + POLE
  local pull = (force + POLE * HALF_LENGTH * spin ^ 2 * sin) / mass
  local turn = (GRAVITY * sin - cos * pull - POLE_FRICTION * spin / (POLE * HALF_LENGTH))
    / (HALF_LENGTH * (4 / 3 - POLE * cos ^ 2 / mass))
  local speed_up = pull - POLE * HALF_LENGTH * turn * cos / mass
  local after = { x + TICK * v, v + TICK * speed_up, angle + TICK * spin, spin + TICK * turn }
  return after, math.abs(after[1]) > LARGEST_POSITION or math.abs(after[3]) > LARGEST_ANGLE
end

-- Runs one episode: `choose(state)` gives the action, and `see(state, action, after, fell)`, if
-- there is one, learns of each step. Returns how many steps there were.
local function run_episode(choose, see)
  local state = start()
  for count = 1, LIMIT do
    local action = choose(state)
    local after, fell = push(state, action)
    if see then see(state, action, after, fell) end
    if fell then return count end
    state = after
  end
  return LIMIT
end

local function network(outputs)
  return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(),
    nn.Linear(64, outputs))
end

-- The action that the network gives the highest score.
local function best_of(net)
  return function(state)
    return ml.no_grad(function() return net(ml.tensor(state)):argmax():item() end)
  end
end

-- Policy gradient (R. Williams, 1992): what an episode earned beyond the value that a second
-- network expected makes the actions taken likelier. Returns the policy, and a function that runs
-- an episode and learns from it.
local function policy_gradient()
  local policy, value = network(2), network(1)
  local adam = optim.Adam({ { params = policy:parameters() },
    { params = value:parameters(), lr = 0.005 } }, { lr = 0.002 })
  local function choose(state)
    return ml.distributions.Categorical { logits = policy(ml.tensor(state)) }:sample():item()
  end

  local function learn(states, actions, returns)
    states = ml.tensor(states)
    local expected = value(states):squeeze(2)
    local advantage = (returns - expected):detach()
    local chosen = ml.distributions.Categorical { logits = policy(states) }
    local gain = chosen:log_prob(ml.tensor(actions)) * advantage / (advantage:std() + 1e-6)
    local loss = F.mse_loss(expected, returns) - gain:mean() - 0.01 * chosen:entropy():mean()
    adam:zero_grad()
    loss:backward()
    adam:step()
  end

  return policy, function()
    local states, actions, last, lost = {}, {}, nil, nil
    local count = ml.no_grad(run_episode, choose, function(state, action, after, fell)
      states[#states + 1], actions[#actions + 1], last, lost = state, action, after, fell
    end)
    -- Each step earns 1; who still stands at the limit would have gone on earning.
    local returns, sum = {}, lost and 0 or value(ml.tensor(last)):item()
    for i = count, 1, -1 do
      sum = 1 + DISCOUNT * sum
      returns[i] = sum
    end
    learn(states, actions, ml.tensor(returns))
    return count
  end
end

-- Deep Q-learning (V. Mnih and others, 2015): the network learns what an action earns from steps
-- drawn from a memory, and a slower copy of it says what the state after them is worth.
local function q_learning()
  local CAPACITY, BATCH, WARM_UP, FADE, RATE = 50000, 64, 500, 5000, 0.005
  local net, target = network(2), network(2)
  target:load_state_dict(net:state_dict())
  local adam = optim.Adam(net:parameters(), { lr = 0.0005 })
  local memory, seen = ml.zeros(CAPACITY, 10), 0  -- state, action, state after, whether it fell
  local best = best_of(net)
  local function choose(state)
    local curiosity = 1 - seen / FADE  -- the share of random actions
    return math.random() < curiosity and math.random(2) or best(state)
  end

  local function learn()
    local rows = memory[ml.randint(1, math.min(seen, CAPACITY), { BATCH })]
    local states, actions, after, fell = table.unpack(rows:split({ 4, 1, 4, 1 }, 2))
    local future = ml.no_grad(function() return target(after):amax(2, true) end)
    local wanted = 1 + DISCOUNT * future * (1 - fell)
    local loss = F.smooth_l1_loss(net(states):gather(2, actions:long()), wanted)
    adam:zero_grad()
    loss:backward()
    adam:step()
    local _ <close> = ml.no_grad()
    for i, slow in ipairs(target:parameters()) do slow:lerp_(net:parameters()[i], RATE) end
  end

  return net, function()
    return run_episode(choose, function(state, action, after, fell)
      local row = { table.unpack(state) }
      row[5], row[10] = action, fell and 1 or 0
      memory[seen % CAPACITY + 1] = ml.tensor(table.move(after, 1, 4, 6, row))
      seen = seen + 1
      if seen >= WARM_UP then learn() end
    end)
  end
end

local function mean_of_last(list, count)
  local sum, first = 0, math.max(1, #list - count + 1)
  for i = first, #list do sum = sum + list[i] end
  return sum / (#list - first + 1)
end

-- Learns until it is solved or the episodes are over; returns their lengths, and the running means.
local function train(episode)
  local lengths, means = {}, {}
  local bar <close> = ml.progress.new { total = options.episodes, unit = "episode",
    label = options.method }
  for i = 1, options.episodes do
    lengths[i] = episode()
    means[i] = mean_of_last(lengths, WINDOW)
    bar:update(1, { steps = means[i] })
    if i >= WINDOW and means[i] >= SOLVED then break end
  end
  return lengths, means
end

ml.manual_seed(options.seed)
math.randomseed(options.seed)
local net, episode = (options.method == "dqn" and q_learning or policy_gradient)()
local lengths, means = train(episode)
local figure = ml.plot.line({ { y = lengths, label = "episode" },
  { y = means, label = "mean of the last " .. WINDOW } },
  { title = "Balanced by " .. options.method, x_label = "episode", y_label = "steps" })
figure:show()
if options.figure then figure:save(options.figure) end
print(("\nThe last %d of %d episodes: %.1f steps on average"):format(math.min(WINDOW, #lengths),
  #lengths, means[#means]))

local tests = {}
for i = 1, 100 do tests[i] = run_episode(best_of(net)) end
print(("The best actions in 100 new episodes: %.1f steps of %d"):format(mean_of_last(tests, 100),
  LIMIT))
