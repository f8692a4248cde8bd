-- tensor/ops/nn.lua: network ops that are made of other ops: attention, dropout, gates.

op { [[scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=nil,
                                    float dropout_p=0, bool is_causal=false,
                                    float? scale=nil) -> Tensor]],
     kind = "composite", autocast = "lower_precision", dtypes = "floating",
     torch = "F.scaled_dot_product_attention(*args)",
     doc = [[`softmax(query key^T * scale + mask) value`: `query` (..., l, e), `key` (..., s, e), `value`
(..., s, v): (..., l, v). A bool `attn_mask` says what may be seen, another one is added; `is_causal` lets
position i see positions up to i. A query that may see nothing gives zeros. `scale` defaults to `1 / sqrt(e)`. Vaswani et al. 2017, "Attention Is All
You Need".]],
     sample = { "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6)",
                "randn(2, 3, 4), randn(2, 3, 4), randn(2, 3, 4), nil, 0, true" } }

op { [[native_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal,
                        float scale) -> Tensor]],
     kind = "composite", dtypes = "floating", internal = true,
     grad = { ["query, key, value, attn_mask"] = "attention_grads(g, query, key, value, attn_mask, is_causal, scale)" },
     torch = "F.scaled_dot_product_attention(*args[:4], 0.0, args[4], scale=args[5])",
     doc = [[`scaled_dot_product_attention` without dropout. Its derivative saves the arguments alone and computes
the (l, s) weights again.]],
     sample = { "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), nil, false, 0.5",
                "randn(2, 3, 4), randn(2, 3, 4), randn(2, 3, 4), nil, true, 0.3",
                "randn(2, 3, 4), randn(2, 5, 4), randn(2, 5, 6), randn(3, 5), false, 0.5" } }

op { "dropout(Tensor x, float p=0.5, bool training=true) -> Tensor",
     kind = "composite", dtypes = "floating", random = true,
     doc = [[In training, zeroes each element with probability `p` and divides the others by `1 - p`; otherwise
`x` itself. Srivastava et al. 2014, "Dropout".]],
     sample = { "randn(3, 4), 0.5" } }

op { "glu(Tensor x, Dim dim=-1) -> Tensor",
     kind = "composite", dtypes = "floating",
     torch = "F.glu(*args)",
     doc = [[The first half of `x` along `dim` times the sigmoid of the second half. Dauphin et al. 2016,
"Language Modeling with Gated Convolutional Networks".]],
     sample = { "randn(3, 4)", "randn(4, 3), 1" } }

op { "cosine_similarity(Tensor a, Tensor b, Dim dim=1, float eps=1e-8) -> Tensor",
     kind = "composite", autocast = { cuda = "float32" }, dtypes = "floating",
     torch = "F.cosine_similarity(*args)",
     doc = [[`sum(a * b) / (max(|a|, eps) * max(|b|, eps))` along `dim`; the default is the second.]],
     sample = { "randn(3, 4), randn(3, 4)" } }
