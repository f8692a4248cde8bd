-- stdlib/data/unicode_marks.lua: which code points above 127 are marks, punctuation, numbers that
-- are no digits and what does not show, by the Unicode character database 16.0: ranges as those of
-- unicode_ranges.lua.

local unicode_marks = {}

-- The category Mn.
unicode_marks.nonspacing = [[
  lc,33 7o,4 7e,18 2,0 2,1 2,1 2,0 21,a 1d,k h,0 2u,6 3,5 3,1 2,3 10,0 v,q 2k,a 1n,8 a,0 p,3 2,8
  2,2 2,4 18,2 1o,8 17,n 2,v 1k,0 2,0 5,7 5,0 4,6 b,1 u,0 1n,0 5,3 9,0 l,1 r,0 3,1 1m,0 5,1 5,1
  3,2 4,0 v,1 4,0 c,1 1m,0 5,4 2,1 5,0 l,1 n,5 2,0 1n,0 3,0 2,3 9,0 8,1 c,1 v,0 1q,0 d,0 1f,0 4,0
  1k,0 2,2 6,2 2,3 8,1 c,1 u,0 1n,0 3,0 7,0 6,1 l,1 t,1 1m,1 5,3 9,0 l,1 u,0 21,0 8,2 2,0 2j,0 3,6
  d,7 2r,0 3,8 c,6 22,1 s,0 2,0 2,0 1k,d 2,4 2,1 6,a 2,z a,0 2v,3 2,5 2,1 3,1 q,1 5,2 h,3 e,0 3,1
  7,0 g,0 jk,2 qb,2 u,1 v,1 v,1 1t,1 2,6 9,0 3,a a,0 1a,2 2,0 3a,1 z,0 3b,2 5,1 a,0 7,2 64,1 3,0
  1n,0 2,6 2,0 2,0 3,7 7,9 3,0 1d,d 2,f 1e,3 1d,0 2,4 2,0 6,0 15,8 d,1 x,3 3,1 2,2 1l,0 2,1 4,0
  2,2 1n,7 3,1 49,2 2,c 2,6 5,0 7,0 4,1 5j,1r k1,c 5,0 4,b 2db,2 3y,0 2p,v ff,3 30,1 n9x,0 5,9 x,1
  29,1 7l,0 4,0 5,0 q,1 6,0 48,1 r,h e,0 13,7 q,a 1b,2 1d,0 3,3 3,1 14,0 1w,5 3,1 3,1 d,0 9,0 1c,0
  1g,0 2,2 3,1 6,1 2,0 17,1 9,0 6n,0 3,0 5,0 fn5,0 ki,f h,f r2,0 6b,0 46,4 1af,2 2,1 6,3 15,2 5,0
  4m,1 fy,3 1u,4 8u,1 28,3 1z,a 1e,3 3g,0 1j,e 16,0 3,1 b,2 1e,3 3,1 8,0 1q,2 11,4 2,7 1r,0 d,1
  1h,8 b,3 3,0 2o,2 3,0 2,1 7,0 3,0 4e,0 4,7 m,1 1m,1 4,0 12,6 4,4 1z,5 e,0 2,0 2,0 f,1 2e,7 3,2
  2,0 o,0 2d,5 2,0 5,1 2,1 6n,3 7,1 2,1 s,1 2e,7 3,0 2,1 2z,0 2,0 3,5 2,0 2u,0 2,0 3,3 2,4 78,8
  2,1 75,1 2,0 5,0 41,3 3,1 5,0 x,9 15,5 3,3 9,0 a,5 3,2 1b,c 2,1 bb,6 2,5 2,0 2b,l 3,6 2,1 2,1
  3f,5 4,0 2,1 2,6 2,0 21,1 4,0 2,0 9o,1 c,1 1h,4 6,0 2,0 o,0 44m,0 7,e 8uh,b 4,2 1xd,4 1o,6 t5,0
  1s,3 2a,0 f5l,1 3mq,19 3,m f5,2 i,7 3,6 v,3 45,2 1j0,1i 5,1d 9,0 f,0 n,4 2,e 11t,6 2,g 3,6 2,1
  2,4 2t,0 4h,6 ag,0 1q,3 e5,3 73,1 kh,6 32,6 gzhy,6n
]]

-- The categories Mc and Me.
unicode_marks.spacing = [[
  w8,1 vu,0 1k,0 3,2 9,3 2,1 1f,1 1n,2 7,1 3,1 b,0 18,0 1n,2 1v,0 1n,2 9,0 2,1 1i,1 1n,0 2,0 7,1
  3,1 b,0 2v,1 2,1 4,2 2,2 b,0 16,2 1q,3 1q,1 1n,0 2,4 3,1 2,1 a,1 t,0 f,1 1n,2 6,2 2,2 b,0 17,1
  24,2 7,7 j,1 97,1 1s,0 4s,1 5,0 7,0 3,1 q,1 b,2 3,6 m,1 3,5 3,0 b,2 1a1,0 v,0 3m,0 8,7 2,1 9n,3
  3,2 5,1 2,5 69,1 1n,0 2,0 a,0 2,1 9,5 24,0 1y,0 1d,0 6,0 2,4 2,1 1q,0 v,0 5,1 3,0 1p,0 3,2 2,0
  4,1 1d,7 9,1 4s,0 m,0 rq,3 2,2 30q,1 ncx,2 c1,1 3,0 2h,1 1f,f 3z,1 1c,0 1d,1 5,1 3,2 33,1 3,1
  p,0 1a,0 2,0 32,0 3,1 6,0 6m,1 2,1 2,1 2,0 jro,0 2,0 3k,0 1a,2 5,1 38,0 p,1 1o,0 1d,2 a,1 e,0
  2m,2 4,1 2,0 4r,2 w,1 1n,1 2,3 3,1 3,2 a,0 b,1 2d,2 8,0 3,0 2,3 2,1 2,0 2u,2 9,1 4,0 2z,2 7,0
  2,3 3,0 6m,2 7,3 3,0 36,2 9,1 2,0 32,0 2,1 7,0 2w,0 2,1 5,0 7a,2 a,0 6w,5 2,1 5,0 3,0 2,0 3z,2
  9,3 5,0 2d,0 u,1 1r,0 bc,0 f,0 2z,0 8,0 3,0 5y,4 5,1 2,0 9r,1 d,0 1d,1 9,1 2,0 d0p,2 2sl,1i 2x,1
  j90,1 7,5
]]

-- The category P of Unicode 8.0, by which the tokenizers that models were trained with go.
unicode_marks.punctuation = [[
  4h,0 6,0 4,0 b,1 4,0 4,0 jj,0 9,0 cz,5 16,1 1g,0 2,0 3,0 3,0 19,1 l,1 2,1 e,0 3,1 23,3 2v,0 18,d
  6i,2 1j,e w,0 7a,1 b,0 ao,0 lg,0 2j,0 b,1 4p,e 2,0 12,3 20,0 23,4 5,1 34,5 4s,0 h1,8 48,0 h9,1
  19,1 27,2 20,1 4e,2 2,2 12,a 8q,1 61,1 3l,6 2,5 4t,6 4c,3 1o,4 1r,1 1t,7 c,0 n1,n 9,j 2,c 2,b
  v,1 f,1 hm,3 u,1 u6,d 28,1 w,9 b8,l 1s,3 x,1 l8,3 2,1 35,0 40,1a 2,i cf,2 5,9 3,b h,0 d,0 2r,0
  2j,0 mwz,1 7i,2 2s,0 b,0 38,5 al,3 2f,1 15,2 2,0 1e,1 1c,0 2q,c h,1 3h,3 3j,1 h,1 6y,0 g2b,1
  5t,9 n,y 2,d 2,0 5,0 2,1 46,2 2,5 2,3 b,1 4,1 r,2 2,0 s,0 2,0 2,6 bf,2 il,0 1d,0 bj,0 ko,0 5k,0
  w,0 7l,8 13,0 35,6 1v,6 2i,3 x7,6 32,1 2,3 3j,3 1d,1 28,4 4,0 e,0 2,2 2h,5 30,0 f1,0 6z,m 2y,2
  6x,2 2lu,4 dtm,1 3q,0 1u,4 9,0 g2j,0 5wo,4
]]

-- The category Pc.
unicode_marks.connectors = [[
  6db,1 k,0 17tr,1 p,2 6o,0
]]

-- The category No.
unicode_marks.fractions = [[
  4y,1 6,0 3,2 1ti,5 ah,5 3d,2 3q,6 62,6 i,8 c2,9 ty,j vo,9 dd,0 1au,0 4,5 7,9 5j,f 16,0 k7,1n
  27,l hj,t 12i,0 wl,3 3v,9 v,7 2,e x,9 14,e n75,5 hjm,18 1u,3 i,1 9i,q 11,3 111,7 q,6 14,8 24,4
  n,5 4h,1 3,f 3,19 1t,8 1h,1 v,2 24,4 2x,7 p,7 16,6 97,5 9t,u 4f,9 17,3 35,6 3r,j ak,j 11i,1 bz,8
  o8,i no,k ex3,6 m7,m jsa,j d,j 31,o 47j,8 pu,1m 2,2 2,3 25,18 2,e qr,c
]]

-- The categories Cc, Cf and Co.
unicode_marks.hidden = [[
  3k,v e,0 11v,5 n,0 5d,0 1e,0 ap,1 29,0 2zw,0 1kt,4 r,4 1e,4 2,9 11u9,4xr 16o,0 6y,2 3b6,0 g,0
  6zn,f qxt,3 440,7 h407,0 v,2n 1egx,1ekd 3,1ekd
]]

return unicode_marks
