"""tests/reference/make_tokenizer_files.py: writes tests/reference/tokenizer_files with Hugging Face's tokenizers
0.23 and SentencePiece: small tokenizers of each kind, trained on the text below, and in cases.json what they make
of texts: what tests/lua/data/tokenizer_json_test.lua reads.
usage: python3 tests/reference/make_tokenizer_files.py
"""
import json
import os
import random
import struct
import tempfile
import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders as D, models, normalizers as N, pre_tokenizers as P,
                        processors as R, trainers)

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer_files")
TEXT = ["The tensor is on the device, and the gradient is on the tape.", "Don't say that they'll learn; they've learnt.",
        "In 2024 there were 12345 tests, 3.14 of them about circles.", "naïve café, ÉCOLE, Straße, ﬁne print, ½ ⅔ Ⅳ",
        "  indented\n\tlines {\n    of code; }\r\n\r\nfoo_bar()", "漢字かな交じり文 と カタカナ", "Привет, мир! Ελληνικά",
        "नमस्ते दुनिया", "안녕 세계", "🙂 signs 👩‍👩‍👧 and (brackets) [too] #1 @home"] * 4
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+")
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = "|".join([r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + ENDING,
                  r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + ENDING,
                  r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
made = {}

def byte_level(name, pattern, normalizer=None, special=("<|begin|>", "<|end|>"), **options):
    t = made[name] = Tokenizer(models.BPE(**options))
    if normalizer: t.normalizer = normalizer
    t.pre_tokenizer = P.Sequence([P.Split(Regex(pattern), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = D.ByteLevel()
    t.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=330, special_tokens=list(special), show_progress=False,
                                                    initial_alphabet=P.ByteLevel.alphabet()))
    return t

t = byte_level("llama3", LLAMA3, ignore_merges=True)
t.post_processor = R.Sequence([R.ByteLevel(trim_offsets=False), R.TemplateProcessing(
    single="<|begin|> $A", pair="<|begin|> $A <|begin|>:1 $B:1", special_tokens=[("<|begin|>", 0)])])
t = byte_level("qwen2", QWEN2, N.NFC())
t.add_tokens([AddedToken("tensor", normalized=False), AddedToken("  double", normalized=True)])
byte_level("qwen35", QWEN35, N.NFC())
byte_level("o200k", O200K)

for name, options in (("bert", {}), ("bert_cased", {"lowercase": False})):
    t = made[name] = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12))
    t.normalizer, t.pre_tokenizer, t.decoder = N.BertNormalizer(**options), P.BertPreTokenizer(), D.WordPiece()
    t.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=200, show_progress=False, special_tokens=[
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.post_processor = R.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
made["bert"].add_special_tokens([AddedToken("[MASK]", lstrip=True)])
made["bert"].add_tokens([AddedToken("tape", single_word=True), AddedToken("<x>", lstrip=True, rstrip=True, normalized=False),
                         AddedToken("<xy>", normalized=False), AddedToken("Foo Bar", normalized=True)])
made["bert"].enable_truncation(14)
made["bert"].enable_padding(length=16, pad_id=0, pad_token="[PAD]")

def unigram(name, normalizer, cut, decoder, bytes_too=False):
    more = [f"<0x{i:02X}>" for i in range(256)] if bytes_too else []
    t = Tokenizer(models.Unigram())
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, cut, decoder
    t.train_from_iterator(TEXT, trainers.UnigramTrainer(vocab_size=150 + len(more), unk_token="<unk>", show_progress=False,
                                                        special_tokens=["<s>", "<pad>", "</s>", "<unk>"] + more))
    if bytes_too:
        file = json.loads(t.to_str())
        file["model"]["byte_fallback"] = True
        file["added_tokens"] = file["added_tokens"][:4]
        t = Tokenizer.from_str(json.dumps(file))
    made[name] = t
    return t

t = unigram("xlm", N.NFKC(), P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), D.Metaspace())
t.post_processor = R.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
                                        special_tokens=[("<s>", 0), ("</s>", 2)])
t.enable_truncation(11, strategy="only_first", direction="left")
t.enable_padding(direction="left", pad_to_multiple_of=4, pad_id=1, pad_token="<pad>")
unigram("t5", N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " ")]), P.Metaspace(prepend_scheme="first"),
        D.Metaspace(prepend_scheme="first"))
unigram("bytes", N.Replace(" ", "▁"), P.Metaspace(split=False, prepend_scheme="never"),
        D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()]), bytes_too=True)

def fields(data):
    """The fields of a message of protobuf: numbers and bytes."""
    at = 0
    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128: return value
    while at < len(data):
        key = number()
        size = number() if key & 7 == 2 else 4 if key & 7 == 5 else 8 if key & 7 == 1 else None
        if size is None:
            yield key >> 3, number()
        else:
            yield key >> 3, data[at:at + size]
            at += size

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "text")
    with open(path, "w") as file: file.write("\n".join(TEXT))
    with open(path + ".rule", "w") as file:
        file.write("".join(f"{a}\t{b}\n" for a, b in (("FB01", "66 69"), ("BD", "31 2044 32"), ("2163", "49 56"), ("65 301", "E9"),
                                                      ("FF21", "41"), ("3000", "20"), ("9", "20"), ("200D", ""), ("C9", "E9"))))
    sentencepiece.SentencePieceTrainer.train(input=path, model_prefix=path, vocab_size=140, hard_vocab_limit=False,
                                             normalization_rule_tsv=path + ".rule", minloglevel=2)
    with open(path + ".model", "rb") as file: model = file.read()
pieces, rules = [], None
for number, value in fields(model):
    if number == 1:
        piece = dict(fields(value))
        pieces.append((piece[1].decode(), struct.unpack("<f", piece.get(2, bytes(4)))[0]))
    if number == 3: rules = dict(fields(value))[2]
t = made["charsmap"] = Tokenizer(models.Unigram(pieces, unk_id=0))
t.normalizer, t.pre_tokenizer, t.decoder = N.Precompiled(rules), P.Metaspace(), D.Metaspace()

t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
t.normalizer = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])
t.decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
t.train_from_iterator(TEXT[:3], trainers.BpeTrainer(vocab_size=340, max_token_length=8, show_progress=False, special_tokens=[
    "<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]))
file = json.loads(t.to_str())
file["added_tokens"] = file["added_tokens"][:3]
t = made["llama2"] = Tokenizer.from_str(json.dumps(file))
t.post_processor = R.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])

t = made["prefixes"] = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
t.normalizer, t.pre_tokenizer = N.Sequence([N.NFD(), N.Lowercase(), N.StripAccents(), N.Strip()]), P.Whitespace()
t.decoder = D.BPEDecoder()
t.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=160, special_tokens=["<unk>"], continuing_subword_prefix="##",
                                                end_of_word_suffix="</w>", show_progress=False))
CUTS = {
    "words": P.WhitespaceSplit(), "word_pattern": P.Split(Regex(r"\w+"), "removed", invert=True),
    "previous": P.Sequence([P.WhitespaceSplit(), P.Punctuation("merged_with_previous"), P.Digits(True)]),
    "next": P.Sequence([P.Punctuation("merged_with_next"), P.Digits(False)]),
    "contiguous": P.Sequence([P.Punctuation("contiguous"), P.CharDelimiterSplit("e")]),
    "removed": P.Sequence([P.Punctuation("removed"), P.Split(" ", "merged_with_next", invert=True)])}
for name, cut in CUTS.items():
    t = made["cut_" + name] = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.pre_tokenizer = cut
    t.train_from_iterator(TEXT, trainers.WordLevelTrainer(vocab_size=200, special_tokens=["[UNK]"], show_progress=False))

random.seed(1)
ranges = [(32, 127), (0x80, 0x250), (0x300, 0x340), (0x370, 0x590), (0x590, 0x700), (0x900, 0x970), (0x2000, 0x2070),
          (0x2100, 0x2190), (0x2460, 0x24ea), (0x3000, 0x3100), (0x4e00, 0x4e20), (0xac00, 0xac40), (0xff01, 0xffa0),
          (0x1f600, 0x1f640), (9, 14), (32, 33)]
words = " ".join(TEXT).split() + ["'s", "'LL", "\r\n\r\n", "   ", "<x>", "<xy>", "Foo Bar", "foo  bar", "tape", "tapes", "[MASK]",
                                  "<|begin|>", "<s>", "  double", "tensor", "▁", "ſ'ſ", "K'K"]

def draw():
    out = ""
    for _ in range(random.randint(0, 9)):
        if random.random() < .6:
            out += random.choice(words) + random.choice([" ", " ", ""])
        else:
            first, last = random.choice(ranges)
            out += "".join(chr(random.randrange(first, last)) for _ in range(random.randint(1, 4)))
    return out

texts = [(draw(), draw() if i % 4 == 0 else None) for i in range(60)]
cases = {}
os.makedirs(FOLDER, exist_ok=True)
for name, t in made.items():
    with open(os.path.join(FOLDER, name + ".json"), "w") as file:
        json.dump(json.loads(t.to_str()), file, ensure_ascii=False, separators=(",", ":"))
    rows = cases[name] = []
    for i, (text, pair) in enumerate(texts):
        adds = i % 3 > 0
        try:
            e = t.encode(text, pair, add_special_tokens=adds)
        except Exception:  # too few tokens to cut off
            continue
        rows.append([i, adds, [x + 1 for x in e.ids], [x + 1 for x in e.type_ids], e.attention_mask, t.decode(e.ids)])
with open(os.path.join(FOLDER, "cases.json"), "w") as file:
    json.dump({"texts": texts, "cases": cases}, file, ensure_ascii=False, separators=(",", ":"))
