-- interp/gen/ascii_math.lua: formulas in plain ASCII, as the texts write them, as MathML:
-- `y_i = exp(x_i) / sum_j exp(x_j)`.
--
-- A product is written with `*` or by putting factors side by side; `/` divides the product on its
-- left by the factor on its right; `_` and `^` take a word or a group. `sum`, `prod` and `int` take
-- the product behind them. Words such as "for" and "else" stand between formulas as text.

local ascii_math = {}

local function set(words)
  local out = {}
  for word in words:gmatch "%S+" do out[word] = true end
  return out
end

local greek = {}
for name, letter in ([[alpha=α beta=β gamma=γ delta=δ epsilon=ε zeta=ζ eta=η theta=θ iota=ι kappa=κ
    lambda=λ mu=μ nu=ν xi=ξ pi=π rho=ρ sigma=σ tau=τ upsilon=υ phi=φ chi=χ psi=ψ omega=ω
    Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Phi=Φ Psi=Ψ Omega=Ω
    inf=∞ infinity=∞ grad=∇]]):gmatch "(%a+)=(%S+)" do
  greek[name] = letter
end

local big = { sum = "∑", prod = "∏", int = "∫" }
local limits = set "max min sup lim argmax argmin"

--- Functions, whose names are set upright.
ascii_math.functions = set [[exp log ln log10 log2 log1p expm1 sin cos tan arcsin arccos arctan sinh
  cosh tanh asin acos atan atan2 asinh acosh atanh arcsinh arccosh arctanh sinc sqrt abs floor ceil
  round trunc sgn sign erf erfc erfinv erfcx max min argmax argmin sup lim det tr trace diag rank norm
  mean var Var std cov conj Re Im arg angle softmax softmin sigmoid relu softplus logsumexp gamma
  digamma lgamma lngamma B E P H C KL median mod gcd lcm clamp concat cat stack xlogy logit Phi
  Bernoulli Binomial Poisson Normal Uniform Gumbel U N mexp expm adj vec kron I J K Y T V W F S
  log_softmax cross_entropy]]

--- Words of the field that stand for numbers and functions without being an argument.
ascii_math.words = set [[TP FP TN FN STFT AlphaDropout activation anchor attention batch classes cluster
  condition count decoder encoder extra feedforward first head imag real layer memory near norm1 norm2
  norm3 norm_first running size tail windows positive negative precision recall FPR TPR mask last
  length sizes row column steps rows columns weight bias input target output state key query value
  input1 input2 log_probs
  gradient epoch iteration cycle kernel_size beta1 beta2 index fan fan_in fan_out gain rms height part
  analytical numerical start end Adam]]

--- Words of the sentence that a formula may be part of.
ascii_math.prose = set [[for if else where with of over the and or is are as in not from to each all
  that their others else otherwise when on by be both an at least most than it its unless given
  uniform proportional collapse paths frequent labels element elements channel channels halves along
  window windows cross-correlation smoothing label full plus tanh: probabilities which has have so
  then until does none whose every only same before after goes up back found gives give times number
  maximum zeros line search start end swa]]

-- Those of them that are names of arguments, too.
local both_ways = set "to from start end"

local relations = { ["="] = "=", ["=="] = "=", ["!="] = "≠", ["<"] = "&lt;", ["<="] = "≤", [">"] = "&gt;",
  [">="] = "≥", ["~"] = "~", ["->"] = "→", [":="] = "≔", [","] = ",", [";"] = ";", [":"] = ":" }
local closing = { ["("] = ")", ["["] = "]", ["{"] = "}" }

-- --- tokens -----------------------------------------------------------------------------------

local patterns = {
  { "number", "^%d+%.?%d*e[+-]?%d+" }, { "number", "^%d*%.?%d+" },
  { "string", '^"[^"]*"' },
  { "dots", "^%.%.%." }, { "name", "^cross%-correlation" },
  { "name", "^%a[%w_]*'*" },
  { "symbol", "^||" }, { "symbol", "^[<>!=:]=" }, { "symbol", "^%->" }, { "symbol", "^[%+%-%*/%^_=<>~,;:!|%(%)%[%]{}%.]" },
}

local function tokens_of(text)
  local out, at = {}, 1
  while true do
    local space, start = text:match("^(%s*)()", at)
    if start > #text then break end
    local found
    for _, pattern in ipairs(patterns) do
      found = text:match(pattern[2], start)
      if found then
        -- "weight_(t_n)": the index is a group. "w.grad" is one name.
        if pattern[1] == "name" then
          found = found:gsub("_+$", "")
          local field = text:match("^%.%a[%w_]*", start + #found)
          if field then found = found .. field end
        end
        out[#out + 1] = { kind = pattern[1], text = found, spaced = space ~= "" }
        break
      end
    end
    if not found then error(("'%s' is no symbol of formulas"):format(text:sub(start, start)), 0) end
    at = start + #found
  end
  return out
end

-- --- MathML -----------------------------------------------------------------------------------

local function tag(name, ...) return ("<%s>%s</%s>"):format(name, table.concat({ ... }), name) end
local function operator(text) return "<mo>" .. text .. "</mo>" end
local function row(...) return tag("mrow", ...) end
local function words(text) return '<mtext>&#160;' .. text .. "&#160;</mtext>" end

-- A name or a part of one: Greek letters, single letters slanted, words upright.
local function identifier(text)
  local base, primes = text:match "^(.-)('*)$"
  local shown = greek[base] or base
  local upright = utf8.len(shown) > 1 and ' mathvariant="normal"' or ""
  return ("<mi%s>%s%s</mi>"):format(upright, shown, ("′"):rep(#primes))
end

-- --- the parser -------------------------------------------------------------------------------

local Parser = {}
Parser.__index = Parser

function Parser:peek() return self.tokens[self.at] end

function Parser:is(text)
  local token = self.tokens[self.at]
  return token and token.text == text and token.kind == "symbol"
end

function Parser:take(text)
  local token = self.tokens[self.at]
  if not token or text and token.text ~= text then
    error(("%s expected, got %s"):format(text and "'" .. text .. "'" or "a symbol",
      token and "'" .. token.text .. "'" or "the end"), 0)
  end
  self.at = self.at + 1
  return token
end

-- The name and the index of "x_ij", "b_out" and "loss_i"; "kernel_size" is a name alone.
local function split_index(text)
  if ascii_math.functions[text] then return text end
  local base, index = text:match "^(%a)_(.+)$"
  if not base then base, index = text:match "^(%a+)_(%d+)$" end
  if not base then base, index = text:match "^([%w_]+)_(%w%w?)$" end
  if not base or base:find "%." then
    local first, rest = text:match "^(%a+)_(.+)$"
    if first and (greek[first] or big[first]) then return first, rest end
    return text
  end
  return base, index
end

-- Letters of an index, "ij", or a word, "out".
local function index_of(text)
  local base, rest = text:match "^(%w+)_(%w+)$"
  if base then return row(index_of(base), operator ",", index_of(rest)) end
  if text:find "^%l%l$" and not greek[text] then
    return row(identifier(text:sub(1, 1)), identifier(text:sub(2)))
  end
  return text:find "^%d+$" and tag("mn", text) or identifier(text)
end

-- Keeps a word for what asks whether all are known: with its index, and without.
function Parser:note(base, whole)
  local function plain(text) return (text:gsub("'+$", ""):gsub("%..*$", "")) end
  self.names[#self.names + 1] = { plain(base), plain(whole) }
end

-- What is in brackets, with a state of its own.
function Parser:inside(close)
  local outer, below = self.within, self.in_denominator
  self.within, self.in_denominator = nil, false
  local list = self:list(close)
  self.within, self.in_denominator = outer, below
  self:take(close)
  return list
end

function Parser:group()
  local open = self:take().text
  return row(operator(open), self:inside(closing[open]), operator(closing[open]))
end

-- What is below or above: a group without its brackets, or one word or number with its sign.
function Parser:script()
  if self:is "(" or self:is "{" then return row(self:inside(closing[self:take().text])) end
  if self:is "-" then
    self:take()
    return row(operator "−", self:script())
  end
  local token = self:take()
  if token.kind == "number" then return tag("mn", token.text) end
  if token.kind ~= "name" then error(("'%s' is no index"):format(token.text), 0) end
  local base, index = split_index(token.text)
  if #base > 2 then self:note(base, token.text) end
  return index and tag("msub", identifier(base), index_of(index)) or identifier(base)
end

-- The index and the power that follow; `below` is the index that the name has already.
function Parser:scripts(body, stacked, below)
  local above
  while self:is "_" and not below or self:is "^" and not above do
    if self:take().text == "_" then below = self:script() else above = self:script() end
  end
  local under, over, both = "msub", "msup", "msubsup"
  if stacked then under, over, both = "munder", "mover", "munderover" end
  if below and above then return tag(both, body, below, above) end
  if below then return tag(under, body, below) end
  return above and tag(over, body, above) or body
end

-- "|x|" and "||x||".
function Parser:bars()
  local mark = self:take().text
  local outer = self.within
  self.within = mark
  local list = self:list(mark)
  self.within = outer
  self:take(mark)
  local bar = operator(mark == "||" and "‖" or "|")
  return row(bar, list, bar)
end

-- Whether a function's arguments follow, without a space.
function Parser:opens()
  local token = self:peek()
  return token and not token.spaced and (self:is "(" or self:is "[")
end

local fences = { abs = { "|", "|" }, floor = { "⌊", "⌋" }, ceil = { "⌈", "⌉" } }

-- sqrt(x), abs(x), floor(x) and ceil(x) have signs of their own.
function Parser:fenced(name)
  self:take "("
  local inside = self:inside ")"
  if name == "sqrt" then return self:scripts(tag("msqrt", inside)) end
  return self:scripts(row(operator(fences[name][1]), inside, operator(fences[name][2])))
end

function Parser:name()
  local whole = self:take().text
  local base, index = split_index(whole)
  self:note(base, whole)
  index = index and index_of(index)
  if big[base] then
    local sign = self:scripts('<mo largeop="true">' .. big[base] .. "</mo>", true, index)
    return self:starts_factor() and row(sign, self:product(true)) or sign
  end
  if (base == "sqrt" or fences[base]) and self:is "(" then return self:fenced(base) end
  local is_gamma = base == "gamma" and self:opens()
  local body = self:scripts(identifier(is_gamma and "Gamma" or base), limits[base], index)
  if not self:opens() then return body end
  return row(body, operator "&#8289;", self:scripts(self:group()))
end

-- Whether the word is one of the sentence: not where an argument is calculated with, as in `to - from`.
function Parser:is_prose()
  local token = self:peek()
  if token.kind ~= "name" or not ascii_math.prose[token.text] then return false end
  if not both_ways[token.text] then return true end
  local before, after = self.tokens[self.at - 1], self.tokens[self.at + 1]
  return not (before and before.text:find "^[-+*/^]$" or after and after.text:find "^[-+/^]$")
end

function Parser:starts_factor()
  local token = self:peek()
  if not token then return false end
  if token.kind == "name" then return not self:is_prose() end
  if token.kind ~= "symbol" then return true end
  if token.text == "|" or token.text == "||" then return self.within ~= token.text end
  return closing[token.text] ~= nil
end

-- One factor, with its index, power and "!".
function Parser:factor()
  local token = self:peek()
  local body
  if not self:starts_factor() then error("an operator without its right side", 0) end
  if token.kind == "name" then
    body = self:name()
  elseif token.kind == "number" then
    body = self:scripts(tag("mn", self:take().text))
  elseif token.kind == "string" then
    body = tag("mtext", (self:take().text:gsub('"', "&quot;")))
  elseif token.kind == "dots" then
    self:take()
    body = operator "…"
  elseif token.text == "|" or token.text == "||" then
    body = self:scripts(self:bars())
  else
    body = self:scripts(self:group())
  end
  while self:is "!" do
    self:take()
    body = row(body, operator "!")
  end
  return body
end

-- A factor that is nothing but a group in brackets, which a bar of a fraction stands for.
local function without_brackets(body)
  local inside = body:match "^<mrow><mo>%(</mo>(.*)<mo>%)</mo></mrow>$"
  local depth = 0
  for mark in (inside or ""):gmatch "<mo>([()])</mo>" do
    depth = depth + (mark == "(" and 1 or -1)
    if depth < 0 then return body end
  end
  return inside and row(inside) or body
end

function Parser:denominator()
  self:take "/"
  if self:is "-" then error("a denominator with a sign needs brackets", 0) end
  local outer = self.in_denominator
  self.in_denominator = true
  local body = without_brackets(self:factor())
  self.in_denominator = outer
  return body
end

-- Whether a second sum or product begins, which the first one in a denominator does not take.
function Parser:starts_another_big()
  local token = self:peek()
  return self.in_denominator and token and token.kind == "name" and big[split_index(token.text)]
end

-- Factors side by side, multiplied and divided; behind a sum, up to the division, but for that of a
-- number: `sum_k 1 / k`.
function Parser:product(is_operand)
  local body = self:factor()
  while true do
    if is_operand and self:starts_another_big() then
      return body
    elseif self:is "/" and (not is_operand or body:find "^<mn>[^<]*</mn>$") then
      body = tag("mfrac", without_brackets(body), self:denominator())
    elseif self:is "*" or self:is "." then
      self:take()
      body = row(body, operator "⋅", self:factor())
    elseif self:starts_factor() then
      body = row(body, '<mspace width="0.2em"></mspace>', self:factor())
    else
      return body
    end
  end
end

function Parser:expression()
  local parts = {}
  repeat
    if self:is "+" or self:is "-" then
      parts[#parts + 1] = operator(self:take().text == "-" and "−" or "+")
    end
    parts[#parts + 1] = self:product()
  until not (self:is "+" or self:is "-")
  return #parts == 1 and parts[1] or row(table.unpack(parts))
end

-- Expressions with relations, commas and words between them, up to a closing bracket.
function Parser:list(close)
  local parts, first = {}, #self.names + 1
  while self:peek() and not (close and self:is(close)) do
    local token = self:peek()
    if self:is_prose() then
      parts[#parts + 1] = words(self:take().text)
      first = #self.names + 1
    elseif relations[token.text] then
      -- What stands on the left of "=" is explained by it, and what is on the left of ":" names a case.
      local explains = token.text == "=" or token.text == ":"
      for i = first, explains and #self.names or 0 do self.defined[self.names[i][1]] = true end
      first = #self.names + 1
      parts[#parts + 1] = operator(relations[self:take().text])
    elseif self:is "*" then
      self:take()
      parts[#parts + 1] = operator "⋅"
    elseif self:is "+" or self:is "-" or self:starts_factor() then
      parts[#parts + 1] = self:expression()
    else
      error(("'%s' cannot stand here"):format(token.text), 0)
    end
  end
  return table.concat(parts)
end

local function parsed(line)
  local parser = setmetatable({ tokens = tokens_of(line), at = 1, names = {}, defined = {} }, Parser)
  local ok, result = pcall(parser.list, parser)
  if not ok then error(("formula '%s': %s"):format(line, result), 0) end
  return result, parser
end

--- A formula as MathML, a block for each of its lines.
---@param formula string
---@return string
function ascii_math.mathml(formula)
  local out = {}
  for line in formula:gmatch "[^\n]+" do
    out[#out + 1] = ('<math display="block">%s</math>'):format((parsed(line)))
  end
  return table.concat(out, "\n")
end

--- The words of a formula that are neither known nor explained by it: no functions, Greek or single
--- letters, none of `known`, and on the left of no "=".
---@param formula string
---@param known table<string, boolean>
---@return string[]
function ascii_math.unknown(formula, known)
  local names, defined, out = {}, {}, {}
  for line in formula:gmatch "[^\n]+" do
    local _, parser = parsed(line)
    table.move(parser.names, 1, #parser.names, #names + 1, names)
    for name in pairs(parser.defined) do defined[name] = true end
  end
  local function is_known(name)
    return name:find "^%a%d?$" or name:find "^d%a$" or greek[name] or big[name]
      or ascii_math.functions[name] or known[name] or defined[name]
  end
  for _, name in ipairs(names) do
    if not is_known(name[1]) and not is_known(name[2]) then
      out[#out + 1], defined[name[1]] = name[2], true
    end
  end
  return out
end

return ascii_math
