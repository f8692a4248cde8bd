-- tensor/ops/nn.lua: attention, and network ops that are made of other ops: dropout, gates, distances, bags of
-- embeddings.

op { [[scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=nil,
                                    float dropout_p=0, bool is_causal=false, float? scale=nil,
                                    bool enable_gqa=false) -> Tensor]],
     kind = "composite", autocast = "lower_precision", dtypes = "floating",
     torch = "F.scaled_dot_product_attention(*args[:6], **dict(zip(('scale', 'enable_gqa'), args[6:])))",
     doc = "Scaled dot-product attention. A query that attends to no key gives zeros.",
     args = { query = "the queries",
              key = "the keys",
              value = "the values",
              attn_mask = "a bool tensor, true where a query attends to a key, or numbers that are added to the " ..
                "scores; it broadcasts to (*, l, s)",
              dropout_p = "the probability with which a weight is zeroed, while the others are divided by `1 - " ..
                "dropout_p`; give 0 in evaluation",
              is_causal = "whether query `i` attends to the keys up to `i` only",
              scale = "the factor of the scores; `1 / sqrt(e)` unless given",
              enable_gqa = "whether `key` and `value` may have fewer heads (the third dimension from the end) " ..
                "than `query`, each for several of its heads in turn" },
     shapes = "query (*, l, e), key (*, s, e), value (*, s, v), attn_mask (*, l, s) -> (*, l, v)",
     formula = "y = softmax(query key^T * scale + attn_mask) value",
     source = 'Vaswani et al. 2017, "Attention Is All You Need"',
     example = "ml.scaled_dot_product_attention(ml.ones(1, 2), ml.eye(2), ml.tensor {{1.0, 2}, {3, 4}})",
     gives = [[
{{2., 3.}}
Tensor (1, 2) float32]],
     sample = { "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6)",
                "randn(2, 3, 4), randn(2, 3, 4), randn(2, 3, 4), nil, 0, true",
                "randn(2, 4, 3, 4), randn(2, 2, 5, 4), randn(2, 2, 5, 3), nil, 0, false, 0.3, true",
                "randn(2, 4, 3, 4), randn(2, 2, 5, 4), randn(2, 2, 5, 3), randn(2, 4, 3, 5), 0, false, nil, true",
                "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), tensor({{true, false, true, true, false}, {false, true, true, false, true}, {true, true, true, true, true}})" } }

op { [[native_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal,
                        float scale) -> Tensor]],
     vmap = "flash_attention", kind = "composite", dtypes = "floating", internal = true,
     grad = { ["query, key, value"] = "attention_grads(g, query, key, value, attn_mask, is_causal, scale)",
              attn_mask = "attention_grad_mask(g, query, key, value, attn_mask, is_causal, scale)" },
     torch = "F.scaled_dot_product_attention(*args[:4], 0.0, args[4], scale=args[5])",
     doc = [[`scaled_dot_product_attention` without dropout, for some queries at a time: it holds part of the
(l, s) weights alone, and its derivative, which saves the arguments, computes them again.]],
     sample = { "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), nil, false, 0.5",
                "randn(2, 3, 4), randn(2, 3, 4), randn(2, 3, 4), nil, true, 0.3",
                "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), randn(3, 5), false, 0.5" } }

op { [[flash_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal,
                       float scale, float dropout_p=0, Tensor? states=nil) -> (Tensor y, Tensor logsumexp)]],
     vmap = "flash_attention", kind = "structured", dtypes = "floating", mixed = true, internal = true, nodiff = { "logsumexp" },
     grad = { ["query, key, value"] = "flash_grads(g_y, query, key, value, attn_mask, y, logsumexp, is_causal, scale, {dropout_p, states})",
              attn_mask = "attention_grad_mask(g_y, query, key, value, attn_mask, is_causal, scale, {dropout_p, states})" },
     check = { value = "scaled_dot_product_attention is compared" },
     doc = [[`softmax(query key^T * scale + attn_mask) value`, and of each query the logarithm of the sum of
`exp(score)`, infinite for a query that attends to no key. No more than a block of the (l, s) scores is held. With
`states`, a state of `random_states` for each entry of the batch, the weights are multiplied by the masks that
`dropout_rows` gives. Dao et al. 2022, "FlashAttention".]],
     sample = { "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), nil, false, 0.5",
                "randn(2, 3, 4), randn(2, 3, 4), randn(2, 3, 4), randn(3, 1), true, 0.3",
                "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), randn(2, 1, 5), true, 0.5",
                "randn(2, 3, 4), randn(3, 1, 5, 4), randn(5, 6), nil, true, 0.3",
                "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), nil, false, 0.5, 0.4, tensor({{{1, 2}}, {{3, 4}}}, {dtype = \"int64\"})",
                "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), randn(3, 5), false, 0.5, 0.4, tensor({{1, 2}}, {dtype = \"int64\"})" } }

op { [[flash_attention_grads(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? attn_mask, Tensor y,
                             Tensor logsumexp, bool is_causal, float scale, float dropout_p=0,
                             Tensor? states=nil) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)]],
     vmap = "flash_attention_grads", kind = "structured", dtypes = "floating", mixed = true, internal = true,
     check = { value = "checked through what uses it" },
     doc = [[The gradients of `flash_attention`; `y` and `logsumexp` are those that it gave.]],
     sample = { "randn(2, 3, 6), randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), nil, randn(2, 3, 6), randn(2, 3), false, 0.5",
                "randn(2, 3, 4), randn(3, 4), randn(2, 3, 4), randn(2, 3, 4), randn(2, 1, 3), randn(2, 3, 4), randn(2, 3), true, 0.5" } }

op { "dropout(Tensor x, float p=0.5, bool training=true) -> Tensor",
     kind = "composite", dtypes = "floating+complex", random = true, inplace = true,
     doc = [[Dropout: in training zeroes each element with probability `p` and divides the others by `1
- p`; otherwise `x` itself.]],
     args = { p = "the probability of a zero", training = "whether elements are dropped" },
     shapes = "x (*) -> (*)",
     source = 'Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting"',
     example = "ml.manual_seed(3); ml.dropout(ml.ones(6), 0.5)",
     gives = [[
{2., 0., 2., 2., 0., 2.}
Tensor (6,) float32]],
     sample = { "randn(3, 4), 0.5" } }

op { "alpha_dropout(Tensor x, float p=0.5, bool training=true) -> Tensor",
     kind = "composite", dtypes = "floating", random = true, inplace = true,
     doc = [[Alpha dropout for `selu` networks: in training sets each element with probability `p` to
the value that `selu` tends to at minus infinity, then scales and shifts all so that mean 0 and variance
1 stay; otherwise `x` itself.]],
     args = { p = "the probability of a dropped element", training = "whether elements are dropped" },
     shapes = "x (*) -> (*)",
     source = "Klambauer et al. 2017, arXiv:1706.02515",
     example = "ml.manual_seed(3); ml.alpha_dropout(ml.ones(6), 0.5)",
     gives = [[
{ 1.6656, -0.7792,  1.6656,  1.6656, -0.7792,  1.6656}
Tensor (6,) float32]],
     sample = { "randn(3, 4), 0.5", "randn(3, 4), 0.3, false" } }

op { "feature_dropout(Tensor x, float p=0.5, bool training=true) -> Tensor",
     kind = "composite", dtypes = "floating+complex", random = true, inplace = true,
     doc = "Channel dropout: `dropout` of whole channels.",
     args = { p = "the probability of a zeroed channel", training = "whether channels are dropped" },
     shapes = "x (n, c, *) -> (n, c, *)",
     source = 'Tompson et al. 2015, "Efficient Object Localization Using Convolutional Networks"',
     example = "ml.manual_seed(3); ml.feature_dropout(ml.ones(1, 4, 2), 0.5)",
     gives = [[
{{{2., 2.},
  {0., 0.},
  {2., 2.},
  {2., 2.}}}
Tensor (1, 4, 2) float32]],
     sample = { "randn(3, 4, 2), 0.5", "randn(3, 4), 0.5" } }

op { "feature_alpha_dropout(Tensor x, float p=0.5, bool training=true) -> Tensor",
     kind = "composite", dtypes = "floating", random = true, inplace = true,
     doc = "Channel alpha dropout: `alpha_dropout` of whole channels.",
     args = { p = "the probability of a dropped channel", training = "whether channels are dropped" },
     shapes = "x (n, c, *) -> (n, c, *)",
     example = "ml.manual_seed(3); ml.feature_alpha_dropout(ml.ones(1, 4, 1), 0.5)",
     gives = [[
{{{ 1.6656},
  {-0.7792},
  { 1.6656},
  { 1.6656}}}
Tensor (1, 4, 1) float32]],
     sample = { "randn(3, 4, 2), 0.5" } }

op { "gumbel_softmax(Tensor logits, float tau=1, bool hard=false, Dim dim=-1) -> Tensor",
     kind = "composite", dtypes = "floating", random = true,
     doc = [[Sample of the Gumbel-softmax distribution: a differentiable draw of a category. With `hard`
the result is one-hot and has the gradient of the soft sample.]],
     args = { logits = "unnormalized log probabilities",
              tau = "the temperature: the lower, the nearer to one-hot",
              hard = "whether the result is one-hot" },
     shapes = "logits (*) -> (*)",
     formula = "y = softmax((logits + g) / tau)",
     source = 'Jang et al. 2017, "Categorical Reparameterization with Gumbel-Softmax"',
     example = "ml.manual_seed(1); ml.gumbel_softmax(ml.tensor {1.0, 2, 3}, 1, true)",
     gives = [[
{0., 1., 0.}
Tensor (3,) float32]],
     sample = { "randn(3, 4)", "randn(3, 4), 0.5, false, 1" } }

op { "glu(Tensor x, Dim dim=-1) -> Tensor",
     kind = "composite", dtypes = "floating",
     torch = "F.glu(*args)",
     doc = "Gated linear unit: the first half of `x` along a dimension times the sigmoid of the second half.",
     args = { dim = "the dimension that is halved; its size is even" },
     shapes = "x (*, 2 * n, *) -> (*, n, *)",
     formula = "y = a * sigmoid(b)",
     source = 'Dauphin et al. 2016, "Language Modeling with Gated Convolutional Networks"',
     example = "ml.glu(ml.tensor {1.0, 2, 0, 1})",
     gives = [[
{0.5000, 1.4621}
Tensor (2,) float32]],
     sample = { "randn(3, 4)", "randn(4, 3), 1" } }

op { "cosine_similarity(Tensor a, Tensor b, Dim dim=1, float eps=1e-8) -> Tensor",
     kind = "composite", autocast = { device = "float32" }, dtypes = "floating",
     torch = "F.cosine_similarity(*args)",
     doc = "Cosine of the angle between vectors along a dimension, from -1 to 1. The tensors broadcast.",
     args = { a = "vectors",
              b = "vectors",
              dim = "the dimension of the vectors",
              eps = "the least norm, which avoids division by 0" },
     shapes = "a (n, d), b (n, d) -> (n)",
     formula = "y = sum_i a_i * b_i / (max(norm(a), eps) * max(norm(b), eps))",
     example = "ml.cosine_similarity(ml.tensor {{1.0, 0}}, ml.tensor {{1.0, 1}})",
     gives = [[
{0.7071}
Tensor (1,) float32]],
     sample = { "randn(3, 4), randn(3, 4)" } }

op { "pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-6, bool keepdim=false) -> Tensor",
     kind = "composite", dtypes = "floating",
     torch = "F.pairwise_distance(*args)",
     doc = "Distance of pairs of vectors along the last dimension. The tensors broadcast.",
     args = { x1 = "vectors",
              x2 = "vectors",
              p = "the order of the norm",
              eps = "what is added to each difference, so that the gradient is finite" },
     shapes = "x1 (*, d), x2 (*, d) -> (*)",
     formula = "y = (sum_i abs(x1_i - x2_i + eps)^p)^(1 / p)",
     example = "ml.pairwise_distance(ml.tensor {{0.0, 0}}, ml.tensor {{3.0, 4}})",
     gives = [[
{5.0000}
Tensor (1,) float32]],
     sample = { "randn(3, 4), randn(3, 4)", "randn(2, 3, 4), randn(3, 4), 1, 1e-3, true", "randn(4), randn(2, 4), 3" } }

op { "pdist(Tensor x, float p=2) -> Tensor",
     kind = "composite", autocast = { device = "float32" }, dtypes = "floating",
     torch = "F.pdist(*args)",
     doc = [[Distances of all pairs of rows: those of the first row and the others, then of the second
and those after it, and so on.]],
     args = { x = "vectors as rows", p = "the order of the norm, which may be 0 or infinite" },
     shapes = "x (n, d) -> (n * (n - 1) / 2)",
     formula = "y_ij = (sum_k abs(x_ik - x_jk)^p)^(1 / p) for i < j",
     example = "ml.pdist(ml.tensor {{0.0, 0}, {3, 4}, {0, 1}})",
     gives = [[
{5.0000, 1.0000, 4.2426}
Tensor (3,) float32]],
     sample = { "randn(4, 3)", "randn(3, 2), 1", "randn(3, 4), 3.5", "randn(1, 4)" } }

op { "bilinear(Tensor x1, Tensor x2, Tensor weight, Tensor? bias=nil) -> Tensor",
     kind = "composite", autocast = "promote", dtypes = "floating",
     torch = "F.bilinear(*args)",
     doc = "Bilinear map of pairs of vectors.",
     args = { x1 = "the first vectors",
              x2 = "the second vectors",
              weight = "a matrix for each output",
              bias = "a number for each output" },
     shapes = "x1 (*, n), x2 (*, m), weight (out, n, m), bias (out) -> (*, out)",
     formula = "y_k = x1^T weight_k x2 + bias_k",
     example = "ml.bilinear(ml.tensor {{1.0, 2}}, ml.tensor {{3.0, 4}}, ml.ones(1, 2, 2))",
     gives = [[
{{21.}}
Tensor (1, 1) float32]],
     sample = { "randn(3, 4), randn(3, 5), randn(2, 4, 5), randn(2)", "randn(2, 3, 4), randn(2, 3, 5), randn(2, 4, 5)",
                "randn(4), randn(3), randn(2, 4, 3)" } }

op { [[embedding_bag(Tensor weight, Positions indices, Positions offsets, bool scale_grad_by_freq=false,
                     string mode="mean", Tensor? per_sample_weights=nil,
                     bool include_last_offset=false, int padding_idx=0, bool sparse=false) -> Tensor]],
     kind = "composite", dtypes = "floating",
     torch = "embedding_bag_1based(*args)",
     doc = [[Sums, means or maxima of bags of embeddings: of the rows of `weight` at the indices of each
bag. An empty bag gives zeros.]],
     args = { weight = "a row for each index",
              indices = "the indices, from 1, of all bags one after the other",
              offsets = "the positions in `indices`, from 1, at which the bags begin; the first is 1",
              scale_grad_by_freq = "whether the gradient of each row is divided by how often its index comes",
              mode = '"sum", "mean" or "max"',
              per_sample_weights = 'a factor for each index, with "sum"',
              include_last_offset = "whether the last offset is where the last bag ends, one beyond it",
              padding_idx = "the row that takes no part; 0 is none",
              sparse = 'whether the gradient holds only the rows that were used, as of `embedding`; not with "max"' },
     shapes = "weight (rows, features), indices (n), offsets (bags) -> (bags, features)",
     example = "ml.embedding_bag(ml.tensor {{1.0, 2}, {3, 4}}, ml.tensor {1, 2, 2}, ml.tensor {1, 3})",
     gives = [[
{{2., 3.},
 {3., 4.}}
Tensor (2, 2) float32]],
     sample = { "randn(5, 3), tensor({1, 5, 2, 2}), tensor({1, 3})",
                'randn(5, 3), tensor({1, 5, 2, 2, 4}), tensor({1, 3, 3}), false, "sum", randn(5)',
                'randn(5, 3), tensor({1, 5, 2, 2, 4}), tensor({1, 3, 3}), false, "max"',
                'randn(5, 3), tensor({1, 5, 2, 2, 4}), tensor({1, 3, 6}), false, "mean", nil, true, 2',
                'randn(5, 3), tensor({2, 5, 2, 2, 4}), tensor({1, 2, 5}), false, "max", nil, false, 2' } }
