-- stdlib/onnx/read/inputs.lua: how many inputs an op of ONNX files must have, where that is not
-- one; ops of other domains have theirs before a colon.

local least = {}

local function of(count, names, domain)
  for name in names:gmatch "%S+" do least[(domain and domain .. ":" or "") .. name] = count end
end

of(0, "Constant Loop Scan SequenceEmpty Optional OptionalHasElement RandomUniform "
  .. "RandomNormal ConstantFill")
of(2, "Add Sub Mul Div Pow Mod Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor "
  .. "BitwiseAnd BitwiseOr BitwiseXor BitShift PRelu CastLike Expand Tile Gather "
  .. "GatherElements GatherND Compress NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss "
  .. "CumSum CumProd MatMul Gemm Conv ConvTranspose LayerNormalization RMSNormalization "
  .. "SimplifiedLayerNormalization GridSample AffineGrid SequenceAt SequenceInsert "
  .. "QuantizeLinear DequantizeLinear MatMulInteger ConvInteger NonMaxSuppression MaxRoiPool "
  .. "MaxUnpool CenterCropPad ReverseSequence TensorScatter STFT StringConcat")
of(3, "Where Range ScatterND ScatterElements Scatter OneHot InstanceNormalization "
  .. "GroupNormalization LSTM GRU RNN RoiAlign Col2Im DeformConv Attention RotaryEmbedding")
of(5, "BatchNormalization MelWeightMatrix")
of(8, "QLinearConv QLinearMatMul")
of("all", "Concat Max Min Sum Mean Einsum")

of(5, "Adagrad Adam Momentum", "ai.onnx.preview.training")

local MICROSOFT = "com.microsoft"
of(2, "BiasGelu GemmFastGelu BiasSplitGelu FusedConv NhwcConv NhwcFusedConv "
  .. "ConvTransposeWithDynamicPads FusedGemm FusedMatMul TransposeMatMul "
  .. "FusedMatMulActivation CDist BiasSoftmax BiasDropout SimplifiedLayerNormalization "
  .. "LayerNormalization GatherND GridSample ExpandDims Range ComplexMul ComplexMulConj "
  .. "Attention QuantizeLinear DequantizeLinear MatMulInteger16 QLinearConcat", MICROSOFT)
of(3, "BiasAdd SkipLayerNormalization SkipSimplifiedLayerNormalization GroupNorm "
  .. "DynamicQuantizeMatMul DynamicQuantizeLSTM MatMulNBits GatherBlockQuantized", MICROSOFT)
of(4, "SkipGroupNorm RotaryEmbedding CropAndResize MatMulIntegerToFloat", MICROSOFT)
of(5, "QAttention", MICROSOFT)
of(6, "QGemm", MICROSOFT)
of(8, "QLinearConv", MICROSOFT)

return least
