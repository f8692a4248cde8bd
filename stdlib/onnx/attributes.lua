-- stdlib/onnx/attributes.lua: the attributes of an ONNX node, with their types checked.

local dtypes = require "moonlet.onnx.dtypes"

local attributes = {}

local function fail(format, ...) error(format:format(...), 0) end

--- A name as messages show it: short, and in one line.
function attributes.shown(name)
  name = tostring(name):gsub("[%c]", "?")
  return #name > 80 and name:sub(1, 77) .. "..." or name
end
local shown = attributes.shown

-- The field of an attribute's value by the number of its type.
local FIELDS = { "f", "i", "s", "t", "g", "floats", "ints", "strings", "tensors", "graphs",
  "sparse_tensor", "sparse_tensors", "tp", "type_protos" }
local EMPTY = { [6] = true, [7] = true, [8] = true }
-- Those whose values are not read.
local OTHERS = { [9] = "tensors", [10] = "graphs", [11] = "a sparse tensor",
  [12] = "sparse tensors", [14] = "types" }

-- The types that attributes are of, by their names: no name means two things in ops that are read,
-- but for `value`, a number of old borders and else a tensor, and `to`, once the name of a type.
local TYPES = { value = "tf", activations = "strings", scales = "floats", value_floats = "floats",
  to = "is" }
local function of_type(kind, names)
  for name in names:gmatch "%S+" do TYPES[name] = kind end
end
of_type("i", "axis keepdims group ceil_mode count_include_pad transA transB allowzero start end "
  .. "upper blocksize align_corners fmod num_groups size p k largest sorted select_last_index "
  .. "exclusive reverse noop_with_empty_axes training_mode spatial hidden_size linear_before_reset "
  .. "input_forget layout batch_dims ignore_index detect_positive detect_negative antialias "
  .. "exclude_outside num_outputs dtype value_int stash_type storage_order keep_aspect_ratio "
  .. "broadcast is_test num_scan_inputs new_axis batch_axis time_axis periodic output_datatype "
  .. "onesided inverse is_case_sensitive maxsplit sample_size min_gram_length max_gram_length "
  .. "max_skip_count saturate")
of_type("f", "alpha beta gamma epsilon momentum lambd bias min max clip cubic_coeff_a value_float "
  .. "extrapolation_value ratio width_scale height_scale low high mean decay_factor "
  .. "norm_coefficient norm_coefficient_post")
of_type("s", "mode auto_pad direction equation approximate reduction nearest_mode padding_mode "
  .. "coordinate_transformation_mode value_string case_change_action locale delimiter pattern")
of_type("ints", "axes perm pads strides dilations kernel_shape output_padding output_shape starts "
  .. "ends split shape paddings value_ints consumed_inputs scan_input_axes scan_output_axes "
  .. "scan_input_directions scan_output_directions directions ngram_counts ngram_indexes "
  .. "pool_int64s")
-- Those of attention, detection, quantization and of com.microsoft.
of_type("i", "num_heads kv_num_heads q_num_heads unidirectional do_rotary rotary_interleaved "
  .. "local_window_size smooth_softmax interleaved rotary_embedding_dim is_packed_batching "
  .. "past_present_share_buffer kv_cache_bit_width is_causal qk_matmul_output_mode "
  .. "softmax_precision left_window_size right_window_size offset_group output_height output_width "
  .. "sampling_ratio center_point_box block_size output_dtype precision bits N K weight_prepacked "
  .. "channels_last groups signal_ndim normalized transBatchA transBatchB gather_axis "
  .. "quantize_axis mask_index_type")
of_type("f", "spatial_scale scale softcap mask_filter_value")
of_type("s", "keep_aspect_ratio_policy metric")
of_type("ints", "pooled_shape qkv_hidden_sizes")
of_type("strings", "value_strings stopwords pool_strings xs zs")
of_type("g", "then_branch else_branch body")

local function check_type(attribute, field, what)
  local wanted = TYPES[attribute.name]
  if wanted and wanted ~= field and not (wanted == "tf" and (field == "t" or field == "f"))
      and not (wanted == "is" and (field == "i" or field == "s")) then
    fail("%s: the attribute '%s' is of the wrong type", what, shown(attribute.name))
  end
end

-- The number of an attribute's type; the oldest files leave it out.
local function kind_of(attribute)
  if attribute.type then return attribute.type end
  for kind = 1, 8 do
    if attribute[FIELDS[kind]] ~= nil then return kind end
  end
end

--- The value of an AttributeProto: a number, a text, a tensor, a list, or as it is in the file a
--- graph or a type. `context.external` reads tensors of other files.
---@param attribute table
---@param what string the node, for messages
---@param context table
---@param free? boolean whether its name says nothing about its type
---@return any
function attributes.value(attribute, what, context, free)
  local kind = kind_of(attribute)
  local field, name = FIELDS[kind or 0], attribute.name
  if OTHERS[kind] then
    fail("%s: the attribute '%s' holds %s, which are not read", what, shown(name), OTHERS[kind])
  elseif not field then
    fail("%s: the attribute '%s' has no type", what, shown(name))
  end
  if not free then check_type(attribute, field, what) end
  local value = attribute[field]
  if value == nil then
    -- What is zero or empty need not be in the file.
    if EMPTY[kind] then return {} end
    value = ({ 0.0, 0, "" })[kind]
    if value == nil then fail("%s: the attribute '%s' is empty", what, shown(name)) end
  end
  if kind == 4 then
    return dtypes.value(value, ("%s: the attribute '%s'"):format(what, shown(name)),
      context.external)
  end
  return value, kind
end

local LUA_TYPES = { i = "integer", f = "float", s = "string", ints = "integer", floats = "float",
  strings = "string" }

--- Whether a value that is no part of a file's node can be the attribute of a name.
---@param name string
---@param value any
---@return boolean
function attributes.fits(name, value)
  local wanted = TYPES[name]
  local kind = LUA_TYPES[wanted]
  if not kind then return wanted ~= "g" end
  if wanted == "i" or wanted == "f" or wanted == "s" then
    return (math.type(value) or type(value)) == kind
  end
  if type(value) ~= "table" or getmetatable(value) ~= nil then return false end
  for _, item in ipairs(value) do
    if (math.type(item) or type(item)) ~= kind then return false end
  end
  return true
end

--- The number of the type of attributes that hold a graph.
attributes.GRAPH = 5

return attributes
