-- scripts/embed_autoencoder/autoencoder.lua: what the host program runs: an autoencoder of images
-- of 8x8 pixels in eight numbers. Returns what the host calls: train, encode, decode, save, load.

local ml = require "moonlet"
local data, nn, optim = ml.data, ml.nn, ml.optim

local CODE = 8

local encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, CODE))
local decoder = nn.Sequential(nn.Linear(CODE, 96), nn.ReLU(), nn.Linear(96, 64), nn.Sigmoid())
local both = nn.Sequential(encoder, decoder)

local host = {}

-- Learns to give images (n, 64) back; `report(epoch, loss)` is a function of the host.
function host.train(images, epochs, seed, report)
  ml.manual_seed(seed)
  for _, module in ipairs { encoder[1], encoder[3], decoder[1], decoder[3] } do
    module:reset_parameters()
  end
  local loader = data.DataLoader(data.TensorDataset(images), { batch_size = 32, shuffle = true })
  local adam = optim.Adam(both:parameters(), { lr = 0.002 })
  for epoch = 1, epochs do
    local total = 0
    for batch in loader do
      local loss = ml.mse_loss(both(batch), batch)
      adam:zero_grad()
      loss:backward()
      adam:step()
      total = total + loss:item() * #batch
    end
    report(epoch, total / #images)
  end
end

function host.encode(images)
  return ml.no_grad(function() return encoder(images) end)
end

function host.decode(codes)
  return ml.no_grad(function() return decoder(codes) end)
end

function host.save(path) ml.save(path, both:state_dict()) end

function host.load(path) both:load_state_dict(ml.load(path)) end

return host
