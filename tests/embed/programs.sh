# tests/embed/programs.sh, read by run.sh: programs in a host that has no Lua, with libmoonlet-run.
run_library=$libdir/libmoonlet-run.so
[ -e "$run_library" ] && [ -e "$libdir/libmoonlet-run.a" ] || fail 'libmoonlet-run is not installed'
readelf -d "$run_library" | grep -q 'SONAME.*\[libmoonlet-run\.so\.0\]' || fail "the soname of libmoonlet-run.so"
if nm -D "$run_library" | grep -e lua_ -e '7moonlet3cpu' -e '7moonlet3raw' -e '7moonlet6N_'; then
  fail 'libmoonlet-run.so exports or needs what is not for hosts of programs'
fi
if nm -D --defined-only "$run_library" | awk '$2 != "A" { print $3 }' | grep -v '^_Z[A-Z]*N*K*7moonlet'; then
  fail 'libmoonlet-run.so exports what is not its own'
fi
cat >export.lua <<'EOF'
local ml = require "moonlet"
ml.manual_seed(1)
local nn = ml.nn
local net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.LayerNorm(32), nn.Linear(32, 4), nn.Softmax(2)):eval()
ml.export(net, { ml.zeros(1, 16) }, { names = { inputs = { "state" }, outputs = { "action" } } }):save("net.mlp")
local rows = {}
for i = 0, 7 do
  local state = {}
  for k = 0, 15 do state[k + 1] = (i * 16 + k) % 7 - 3.0 end
  rows[i + 1] = ml.no_grad(net, ml.tensor { state })
end
local file <close> = assert(io.open("wanted.bin", "wb"))
file:write(ml.cat(rows, 1):to_bytes())
EOF
"$program" export.lua
counted=-DCOUNT_ALLOCATIONS
[ -z "$sanitized" ] || counted=
OMP_NUM_THREADS=1
export OMP_NUM_THREADS
build program program.cpp moonlet-run $counted
./program net.mlp wanted.bin
if ldd program | grep -e 'libmoonlet\.so' -e liblua; then fail 'a host of programs needs more than libmoonlet-run'; fi
# shellcheck disable=SC2046,SC2086
${CXX:-c++} -std=c++20 $flags "$here/program.cpp" -o program-static $counted $(pkg-config --cflags moonlet-run) \
  $(pkg-config --static --libs moonlet-run | sed 's/-lmoonlet-run /-l:libmoonlet-run.a /') -pthread
./program-static net.mlp wanted.bin
# The host of the gallery.
# A decoder whose cache is its state, in contexts of several threads.
cat >decoder.lua <<'EOF'
ml = require "moonlet"
nn, F = ml.nn, ml.nn.functional
ml.manual_seed(2)
Decoder = nn.class "Decoder"
function Decoder:init(words, width, heads, length)
  self.heads, self.length, self.width = heads, length, width
  self.embedding, self.norm, self.head = nn.Embedding(words, width), nn.LayerNorm(width), nn.Linear(width, words)
  self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
  for _, name in ipairs { "keys", "values" } do
    self:register_buffer(name, ml.zeros(1, heads, length, width // heads))
  end
  self:register_buffer("position", ml.zeros(1, { dtype = ml.int64 }))
end
function Decoder:forward(token)
  local x = self.embedding(token)
  local q, k, v = table.unpack(self.qkv(self.norm(x)):view(1, 1, 3, self.heads, -1):unbind(3))
  self.position:add_(1)
  self.keys:index_copy_(3, self.position, k:transpose(2, 3))
  self.values:index_copy_(3, self.position, v:transpose(2, 3))
  local seen = ml.arange(1, self.length):le(self.position):view(1, 1, 1, -1)
  local y = F.scaled_dot_product_attention(q:transpose(2, 3), self.keys, self.values, { attn_mask = seen })
  return self.head(x + self.out(y:transpose(2, 3):reshape(1, 1, self.width)))
end
net = Decoder(11, 16, 2, 8):eval()
ml.export(net, { ml.ones(1, 1, { dtype = ml.int64 }) }):save("decoder.mlp")
tokens, logits = ml.randint(1, 11, { 8 }), {}
for i = 1, 8 do logits[i] = ml.no_grad(net, tokens[{ { i, i } }]:view(1, 1)) end
function write(name, x)
  local file = assert(io.open(name, "wb"))
  file:write(x:to_bytes())
  file:close()
end
write("tokens.bin", tokens)
write("logits.bin", ml.cat(logits, 1))
EOF
"$program" decoder.lua
build decoder decoder.cpp moonlet-run
./decoder decoder.mlp tokens.bin logits.bin || fail 'a decoder gives other logits in a host'

"$program" "$here/../../scripts/realtime/policy.lua" policy.mlp 100 >policy.txt
build realtime ../../scripts/realtime/main.cpp moonlet-run
./realtime policy.mlp 1000 200 >realtime.txt
grep -q '^200 calls at 1000 Hz' realtime.txt || fail "realtime: $(cat realtime.txt)"
build audio ../../scripts/embed_audio/main.cpp moonlet
for collector in automatic bounded manual; do
  ./audio "$here/../../scripts/embed_audio/synth.lua" 1000 200 1000 "$collector" >audio.txt
  grep -q '^200 blocks at 1000 Hz' audio.txt || fail "audio: $(cat audio.txt)"
done
if ./realtime none.mlp 2>err; then fail 'realtime takes a file that is not there'; fi
grep -q 'none.mlp' err || fail "realtime: $(cat err)"
unset OMP_NUM_THREADS
