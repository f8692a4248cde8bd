// tensor/io/bundle.cpp: opens bundles, which nobody vouches for: every number of the index is
// checked before it is used; and looks at the hashes of what is read.
#include "tensor/io/bundle.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "tensor/core/error.h"
#include "tensor/core/platform/memory.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/io/bundle_layout.h"

namespace moonlet::io {

// --- the header ----------------------------------------------------------------------------------

namespace {
// The complement of the mark, so that the mark itself is in the header of an executable alone; read
// at run time, as the compiler would lay down what it stands for.
constexpr size_t kMarkBytes = sizeof(BundleHeader::mark);
const volatile uint8_t kComplement[kMarkBytes] = {
    0xb2, 0x90, 0x90, 0x91, 0x93, 0x9a, 0x8b, 0xdf, 0x9d, 0x8a, 0x91, 0x9b, 0x93, 0x9a, 0xf5, 0x72,
    0xe5, 0x00, 0x3b, 0x96, 0xd2, 0x47, 0x21, 0xb8, 0x5e, 0x0d, 0xc4, 0x69, 0xf2, 0x83, 0x1a, 0xfe};

Digest digest_of(const BundleHeader& header) {
  return sha256({reinterpret_cast<const char*>(&header), offsetof(BundleHeader, digest)});
}
}  // namespace

BundleHeader empty_bundle_header() noexcept {
  BundleHeader header{};
  for (size_t i = 0; i < kMarkBytes; ++i)
    header.mark[i] = static_cast<char>(static_cast<uint8_t>(~kComplement[i]));
  return header;
}

bool BundleHeader::has_mark() const noexcept {
  const BundleHeader empty = empty_bundle_header();
  return std::memcmp(mark, empty.mark, kMarkBytes) == 0;
}

bool BundleHeader::is_empty() const noexcept {
  const BundleHeader empty = empty_bundle_header();
  return std::memcmp(this, &empty, sizeof empty) == 0;
}

bool BundleHeader::is_whole() const noexcept { return has_mark() && digest == digest_of(*this); }

void layout::close_header(BundleHeader& header) { header.digest = digest_of(header); }

// --- the index -----------------------------------------------------------------------------------

namespace {

// Takes numbers and texts from the front of the index.
class IndexReader {
 public:
  explicit IndexReader(std::string_view rest) : rest_(rest) {}
  std::string_view take(uint64_t count) {
    check(count <= rest_.size(), "its index ends within an entry");
    const std::string_view out = rest_.substr(0, static_cast<size_t>(count));
    rest_.remove_prefix(out.size());
    return out;
  }
  template <class T>
  T number() {
    T out;
    std::memcpy(&out, take(sizeof out).data(), sizeof out);
    return out;
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

BundleEntry read_entry(IndexReader& index, uint64_t at, uint64_t end) {
  BundleEntry entry;
  const int64_t kind = index.number<uint32_t>();
  check(kind <= static_cast<int64_t>(BundleKind::Plugin), "its index has an entry of kind ", kind);
  entry.kind = static_cast<BundleKind>(kind);
  const int64_t name_bytes = index.number<uint32_t>();
  check(name_bytes <= layout::kMostName, "its index has a name of ", name_bytes, " bytes");
  entry.at = at;
  entry.bytes = index.number<uint64_t>();
  entry.stored = index.number<uint64_t>();
  entry.name = index.take(static_cast<uint64_t>(name_bytes));
  check(layout::is_name(entry.name), "its index has an entry of the name '", entry.name, "'");
  check(entry.stored <= end - at && entry.bytes <= entry.stored, "its index says that '",
        entry.name, "' has ", entry.bytes, " bytes in ", entry.stored, ", where it has ", end - at);
  entry.digests = index.take(layout::blocks_of(entry.stored) * sizeof(Digest));
  return entry;
}

}  // namespace

void Bundle::read_index() {
  check(
      header_.index_at <= header_.total && header_.index_bytes == header_.total - header_.index_at,
      "its header is not what was written");
  const uint64_t size = source_->size();
  check(size >= header_.total, "it is cut off: it has ", size, " bytes of ", header_.total);
  check(size == header_.total, "it has ", size - header_.total, " bytes behind its end at ",
        header_.total);
  index_.resize(static_cast<size_t>(header_.index_bytes));
  source_->read(header_.index_at, index_.data(), index_.size());
  check(sha256(index_) == header_.index_digest, "its index is damaged: bytes ", header_.index_at,
        " to ", header_.total, " are not what was written");
  IndexReader index(index_);
  const int64_t version = index.number<uint32_t>();
  check(version == layout::kVersion, "it is of version ", version, ", which another Moonlet reads");
  uint64_t at = 0;
  while (!index.empty()) {
    entries_.push_back(read_entry(index, at, header_.index_at));
    at += entries_.back().stored;
  }
  check(at == header_.index_at, "its index leaves out bytes ", at, " to ", header_.index_at);
  check(!entries_.empty() && entries_[0].kind == BundleKind::Front &&
            entries_[0].bytes >= sizeof(BundleHeader) &&
            header_.position <= entries_[0].bytes - sizeof(BundleHeader),
        "its index does not begin with what lies before the files");
  for (size_t i = 1; i < entries_.size(); ++i) {
    const BundleEntry& entry = entries_[i];
    check(entry.kind != BundleKind::Front && by_name_.emplace(entry.name, i).second,
          "its index has '", entry.name, "' twice");
    if (entry.kind != BundleKind::Main) continue;
    check(main_ == nullptr, "its index has two scripts to run");
    main_ = &entry;
  }
}

Bundle::Bundle(std::unique_ptr<BundleSource> source, const BundleHeader& header, std::string title)
    : source_(std::move(source)), header_(header), title_(std::move(title)) {
  try {
    check(header_.is_whole(), "its header is not what was written");
    read_index();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    fail(title_, " is damaged: ", e.what());
  }
  verified_ = std::make_unique<std::atomic<bool>[]>(entries_.size());
}

const BundleEntry* Bundle::find(std::string_view path) const {
  const auto plain = by_name_.find(path);
  if (plain != by_name_.end()) return &entries_[plain->second];
  const std::string name = layout::normalized(path);
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

// --- hashes --------------------------------------------------------------------------------------

// Where they lie, or in `buffer`.
std::string_view Bundle::block_of(const BundleEntry& entry, uint64_t block,
                                  std::string& buffer) const {
  const uint64_t from = block * kBundleBlock;
  const auto count = static_cast<size_t>(std::min<uint64_t>(kBundleBlock, entry.stored - from));
  const bool has_header = entry.kind == BundleKind::Front && header_.position < from + count &&
                          from < header_.position + sizeof(BundleHeader);
  if (!has_header)
    if (const char* there = source_->in_memory(entry.at + from, count)) return {there, count};
  buffer.resize(count);
  source_->read(entry.at + from, buffer.data(), count);
  if (has_header) layout::clear_header(buffer, from, header_.position);
  return buffer;
}

void Bundle::compare(const BundleEntry& entry, uint64_t block, const Digest& digest) const {
  const std::string_view wanted =
      entry.digests.substr(static_cast<size_t>(block) * sizeof(Digest), sizeof(Digest));
  if (std::memcmp(digest.data(), wanted.data(), sizeof digest) == 0) return;
  const std::string what =
      entry.kind == BundleKind::Front ? "the executable in it" : text("'", entry.name, "' in it");
  const uint64_t from = block * kBundleBlock;
  const uint64_t count = std::min<uint64_t>(kBundleBlock, entry.stored - from);
  fail(title_, " is damaged: ", what, " was changed: bytes ", entry.at + from, " to ",
       entry.at + from + count - 1, " are not what was written");
}

void Bundle::verify(const BundleEntry& entry) const {
  std::atomic<bool>& verified = verified_[static_cast<size_t>(&entry - entries_.data())];
  if (verified.load(std::memory_order_acquire)) return;
  const auto blocks = static_cast<int64_t>(layout::blocks_of(entry.stored));
  // Two at a time.
  cpu::parallel_for((blocks + 1) / 2, layout::kPairsOfThread, [&](int64_t begin, int64_t end) {
    std::string buffers[2];
    for (int64_t i = 2 * begin; i < std::min(2 * end, blocks); i += 2) {
      const auto block = static_cast<uint64_t>(i);
      const bool is_pair = i + 1 < blocks;
      const std::string_view bytes = block_of(entry, block, buffers[0]);
      const std::array<Digest, 2> digests =
          is_pair ? sha256_of_two(bytes, block_of(entry, block + 1, buffers[1]))
                  : std::array{sha256(bytes), Digest()};
      compare(entry, block, digests[0]);
      if (is_pair) compare(entry, block + 1, digests[1]);
    }
  });
  verified.store(true, std::memory_order_release);
}

void Bundle::read(const BundleEntry& entry, uint64_t at, void* out, size_t count) const {
  if (at > entry.bytes || count > entry.bytes - at) fail("the file is cut off");
  source_->read(entry.at + at, out, count);
}

std::string Bundle::bytes_of(const BundleEntry& entry) const {
  verify(entry);
  std::string out(static_cast<size_t>(entry.bytes), '\0');
  read(entry, 0, out.data(), out.size());
  return out;
}

std::optional<FilePart> Bundle::part(const BundleEntry& entry) const {
  const int descriptor = source_->descriptor();
  const uint64_t at = source_->begin() + entry.at;
  if (descriptor < 0 || entry.bytes == 0 || at % platform::page_bytes() != 0) return {};
  verify(entry);
  return FilePart{descriptor, at, entry.bytes};
}

// --- as a file system ----------------------------------------------------------------------------

bool BundleFiles::covers(const std::string& path) const {
  return bundle_->find(path) != nullptr || (behind_ != nullptr && behind_->covers(path));
}

std::optional<uint64_t> BundleFiles::size(const std::string& path) {
  if (const BundleEntry* entry = bundle_->find(path)) return entry->bytes;
  return behind_ != nullptr ? behind_->size(path) : std::nullopt;
}

void BundleFiles::read(const std::string& path, uint64_t at, char* out, size_t count) {
  const BundleEntry* entry = bundle_->find(path);
  if (entry == nullptr) return behind_->read(path, at, out, count);
  bundle_->verify(*entry);
  bundle_->read(*entry, at, out, count);
}

void BundleFiles::write(const std::string& path, const std::vector<std::string_view>& parts) {
  if (bundle_->find(path) != nullptr) fail("it is in the bundle, which is only read");
  behind_->write(path, parts);
}

std::optional<FilePart> BundleFiles::mappable_part(const std::string& path) {
  if (const BundleEntry* entry = bundle_->find(path)) return bundle_->part(*entry);
  return behind_ != nullptr ? behind_->mappable_part(path) : std::nullopt;
}

}  // namespace moonlet::io
