-- tensor/ops/nn.lua: attention, and network ops that are made of other ops: dropout, gates, distances, bags of
-- embeddings.

op { [[scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=nil,
                                    float dropout_p=0, bool is_causal=false, float? scale=nil,
                                    bool enable_gqa=false) -> Tensor]],
     kind = "composite", autocast = "lower_precision", dtypes = "floating",
     torch = "F.scaled_dot_product_attention(*args[:6], **dict(zip(('scale', 'enable_gqa'), args[6:])))",
     doc = [[`softmax(query key^T * scale + mask) value`: `query` (..., l, e), `key` (..., s, e), `value`
(..., s, v): (..., l, v). A bool `attn_mask` says what may be seen, another one is added; `is_causal` lets
position i see positions up to i. A query that may see nothing gives zeros. `scale` defaults to `1 / sqrt(e)`. With `enable_gqa`
`key` and `value` may have fewer heads, the third dimension from the end, each for several of `query` in turn. Vaswani
et al. 2017, "Attention Is All You Need".]],
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
                       float scale) -> (Tensor y, Tensor logsumexp)]],
     vmap = "flash_attention", kind = "structured", dtypes = "floating", mixed = true, internal = true, nodiff = { "logsumexp" },
     grad = { ["query, key, value"] = "flash_grads(g_y, query, key, value, attn_mask, y, logsumexp, is_causal, scale)",
              attn_mask = "attention_grad_mask(g_y, query, key, value, attn_mask, is_causal, scale)" },
     check = { value = "scaled_dot_product_attention is compared" },
     doc = [[`softmax(query key^T * scale + attn_mask) value`, and of each query the logarithm of the sum of
`exp(score)`, infinite for a query that may see nothing. No more than a block of the (l, s) scores is held. Dao et al.
2022, "FlashAttention".]],
     sample = { "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), nil, false, 0.5",
                "randn(2, 3, 4), randn(2, 3, 4), randn(2, 3, 4), randn(3, 1), true, 0.3",
                "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), randn(2, 1, 5), true, 0.5",
                "randn(2, 3, 4), randn(3, 1, 5, 4), randn(5, 6), nil, true, 0.3" } }

op { [[flash_attention_grads(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? attn_mask, Tensor y,
                             Tensor logsumexp, bool is_causal,
                             float scale) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)]],
     vmap = "flash_attention_grads", kind = "structured", dtypes = "floating", mixed = true, internal = true,
     check = { value = "checked through what uses it" },
     doc = [[The gradients of `flash_attention`; `y` and `logsumexp` are those that it gave.]],
     sample = { "randn(2, 3, 6), randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), nil, randn(2, 3, 6), randn(2, 3), false, 0.5",
                "randn(2, 3, 4), randn(3, 4), randn(2, 3, 4), randn(2, 3, 4), randn(2, 1, 3), randn(2, 3, 4), randn(2, 3), true, 0.5" } }

op { "dropout(Tensor x, float p=0.5, bool training=true) -> Tensor",
     kind = "composite", dtypes = "floating+complex", random = true, inplace = true,
     doc = [[In training, zeroes each element with probability `p` and divides the others by `1 - p`; otherwise
`x` itself. Srivastava et al. 2014, "Dropout".]],
     sample = { "randn(3, 4), 0.5" } }

op { "alpha_dropout(Tensor x, float p=0.5, bool training=true) -> Tensor",
     kind = "composite", dtypes = "floating", random = true, inplace = true,
     doc = [[In training, sets each element with probability `p` to the value that `selu` tends to at minus
infinity, then scales and shifts all so that mean 0 and variance 1 stay; otherwise `x` itself. Klambauer et al.
2017, arXiv:1706.02515.]],
     sample = { "randn(3, 4), 0.5", "randn(3, 4), 0.3, false" } }

op { "feature_dropout(Tensor x, float p=0.5, bool training=true) -> Tensor",
     kind = "composite", dtypes = "floating+complex", random = true, inplace = true,
     doc = [[`dropout` of whole channels of `x` (n, c, ...). Tompson et al. 2015, "Efficient Object Localization
Using Convolutional Networks".]],
     sample = { "randn(3, 4, 2), 0.5", "randn(3, 4), 0.5" } }

op { "feature_alpha_dropout(Tensor x, float p=0.5, bool training=true) -> Tensor",
     kind = "composite", dtypes = "floating", random = true, inplace = true,
     doc = [[`alpha_dropout` of whole channels of `x` (n, c, ...).]],
     sample = { "randn(3, 4, 2), 0.5" } }

op { "gumbel_softmax(Tensor logits, float tau=1, bool hard=false, Dim dim=-1) -> Tensor",
     kind = "composite", dtypes = "floating", random = true,
     doc = [[A draw from the categories of `logits` along `dim`: `softmax((logits + g) / tau)` with noise g of the
Gumbel distribution. With `hard` a 1 at the greatest and zeros, with the gradient of the soft draw. Jang et al.
2017, "Categorical Reparameterization with Gumbel-Softmax".]],
     sample = { "randn(3, 4)", "randn(3, 4), 0.5, false, 1" } }

op { "glu(Tensor x, Dim dim=-1) -> Tensor",
     kind = "composite", dtypes = "floating",
     torch = "F.glu(*args)",
     doc = [[The first half of `x` along `dim` times the sigmoid of the second half. Dauphin et al. 2016,
"Language Modeling with Gated Convolutional Networks".]],
     sample = { "randn(3, 4)", "randn(4, 3), 1" } }

op { "cosine_similarity(Tensor a, Tensor b, Dim dim=1, float eps=1e-8) -> Tensor",
     kind = "composite", autocast = { device = "float32" }, dtypes = "floating",
     torch = "F.cosine_similarity(*args)",
     doc = [[`sum(a * b) / (max(|a|, eps) * max(|b|, eps))` along `dim`; the default is the second.]],
     sample = { "randn(3, 4), randn(3, 4)" } }

op { "pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-6, bool keepdim=false) -> Tensor",
     kind = "composite", dtypes = "floating",
     torch = "F.pairwise_distance(*args)",
     doc = [[The `p`-norm of `x1 - x2 + eps` over the last dimension.]],
     sample = { "randn(3, 4), randn(3, 4)", "randn(2, 3, 4), randn(3, 4), 1, 1e-3, true", "randn(4), randn(2, 4), 3" } }

op { "pdist(Tensor x, float p=2) -> Tensor",
     kind = "composite", autocast = { device = "float32" }, dtypes = "floating",
     torch = "F.pdist(*args)",
     doc = [[The `p`-norms of the differences of each two rows of `x` (n, features): those of the first row and the
others, then of the second and those after it, and so on: (n (n - 1) / 2).]],
     sample = { "randn(4, 3)", "randn(3, 2), 1", "randn(3, 4), 3.5", "randn(1, 4)" } }

op { "bilinear(Tensor x1, Tensor x2, Tensor weight, Tensor? bias=nil) -> Tensor",
     kind = "composite", autocast = "promote", dtypes = "floating",
     torch = "F.bilinear(*args)",
     doc = [[`x1^T weight[k] x2 + bias[k]` for each k: `x1` (..., i), `x2` (..., j), `weight` (o, i, j), `bias` (o):
(..., o).]],
     sample = { "randn(3, 4), randn(3, 5), randn(2, 4, 5), randn(2)", "randn(2, 3, 4), randn(2, 3, 5), randn(2, 4, 5)",
                "randn(4), randn(3), randn(2, 4, 3)" } }

op { [[embedding_bag(Tensor weight, Positions indices, Positions offsets, bool scale_grad_by_freq=false,
                     string mode="mean", Tensor? per_sample_weights=nil,
                     bool include_last_offset=false, int padding_idx=0, bool sparse=false) -> Tensor]],
     kind = "composite", dtypes = "floating",
     torch = "embedding_bag_1based(*args)",
     doc = [[The sum, mean or greatest elements (`mode` "sum", "mean", "max") of the rows of `weight` (rows,
features) at the positions of each bag: (bags, features). The bags are parts of `indices` (n) that begin at the
positions `offsets`, the first of which is 1; with `include_last_offset` the last one is where the last bag
ends, one beyond it. `per_sample_weights` (n) multiplies the rows of a sum. The row at position `padding_idx`
takes no part; 0 is no such row. An empty bag gives zeros. `scale_grad_by_freq` divides the gradient of each row
by how often it comes. `sparse` is that of `embedding`, not for the mode "max".]],
     sample = { "randn(5, 3), tensor({1, 5, 2, 2}), tensor({1, 3})",
                'randn(5, 3), tensor({1, 5, 2, 2, 4}), tensor({1, 3, 3}), false, "sum", randn(5)',
                'randn(5, 3), tensor({1, 5, 2, 2, 4}), tensor({1, 3, 3}), false, "max"',
                'randn(5, 3), tensor({1, 5, 2, 2, 4}), tensor({1, 3, 6}), false, "mean", nil, true, 2',
                'randn(5, 3), tensor({2, 5, 2, 2, 4}), tensor({1, 2, 5}), false, "max", nil, false, 2' } }
