// tensor/cpu/common/thresholds.h: the numbers by which the CPU kernels decide: how much work a
// thread is worth, the sizes of blocks, and where one way is faster than another. A row each, with
// what is known of it: "Not measured" is a number that was chosen, by what should fit a cache or
// the registers, and has stayed. What follows from a layout, a library or a type stands where it is
// used; tests/lint/thresholds.lua tells the two apart.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moonlet::thresholds {

// Elementary steps that a thread should have at least: for fewer, waking it costs more than it
// saves. Not measured.
inline constexpr int64_t kGrain = 32768;
// Elementary steps from which on a call of LAPACK is given to a thread that can be abandoned.
// Known: 20 ms and more.
inline constexpr double kLongWork = 2e8;
// Abandoned calls that may go on at once. Not measured.
inline constexpr int kMostAbandoned = 4;
// Bytes behind the source within a page, up to which a forward copy reads what it has just written.
// Known: a copy there takes ten times as long.
inline constexpr uintptr_t kNearInPage = 32;
// Bytes that the C library loads before it stores any. Known: as that library does.
inline constexpr size_t kLoadedFirst = 256;
// Elements that one accumulator takes one after the other, so that sums stay exact. Known: by a
// bound of rounding errors.
inline constexpr int64_t kFoldSteps = 32;

// Optimisers.
namespace optim {

// Elements of each list that a step of an optimiser converts to float32 at a time. Not measured.
inline constexpr int64_t kPiece = 1024;

}  // namespace optim

// Attention.
namespace nn {

// Queries of a block of scores of attention. Not measured.
inline constexpr int64_t kQueries = 128;
// Keys of it. Not measured.
inline constexpr int64_t kKeys = 256;

}  // namespace nn

// Random numbers.
namespace random {

// Items of a bucket beyond which sorting by insertion is slow. Not measured.
inline constexpr uint32_t kCrowd = 64;
// Bits of the size of a bucket of a permutation: it gets some 2^10 to 2^11 items. Not measured.
inline constexpr int kBucketBits = 11;

}  // namespace random

// Products of matrices.
namespace gemm {

// Columns of the result that a product without a library computes at once. Not measured.
inline constexpr int64_t kPlainColumns = 256;
// Elements of the matrix that one call of gemv gets, between two looks at the stop flag. Not
// measured.
inline constexpr int64_t kGemvElements = 1 << 24;
// The most rows and columns of b of a product that our own loops compute. Not measured.
inline constexpr int64_t kSmallSide = 32;
// The most multiplications of it. Not measured.
inline constexpr int64_t kSmallWork = kSmallSide * kSmallSide * kSmallSide;
// Rows of a tile of a small product. Not measured.
inline constexpr int64_t kSmallTileRows = 4;
// Vectors of a row of that tile. Not measured.
inline constexpr int64_t kSmallTileVectors = 2;
// Rows of a small product that wait for their factors. Not measured.
inline constexpr int64_t kSmallWaitingRows = 32;
// Columns of b that are packed together, as far as there are so many. Not measured.
inline constexpr int64_t kSmallPackColumns = 4;
// Rows of a tile of a product by panels. Known: by the number of registers.
inline constexpr int kPanelTileRows = 4;
// The same of AVX-512, which has twice as many. Known: as the last.
inline constexpr int kPanelTileRowsWide = 8;
// Vectors of a row of that tile. Known: as the last.
inline constexpr int kPanelTileVectors = 2;
// Rows of a panel, which stays in the cache. Not measured.
inline constexpr int64_t kPanelDepth = 256;
// Rows of the first operand beside it. Not measured.
inline constexpr int64_t kPanelHigh = 128;
// Bytes of a second operand that is read where it lies: it fits the first cache. Not measured.
inline constexpr int64_t kPanelInPlaceBytes = 1 << 15;
// Multiplications that a thread is worth waking for. Not measured.
inline constexpr int64_t kPanelGrain = int64_t{1} << 18;
// The longest side. Not measured.
inline constexpr int64_t kPanelLongest = 1 << 16;
// Bytes of the vectors that panels pay for. Known: measured beside OpenBLAS and oneDNN, AVX-512.
inline constexpr int64_t kPanelVectorBytes = 64;
// Rows of the result for which a transposed second operand is worth packing. Known: measured as the
// last.
inline constexpr int64_t kPanelRows = 16;
// Bytes that a transposed first operand spans: it stays in the first cache. Known: measured as the
// last.
inline constexpr int64_t kPanelFlippedBytes = 1 << 15;
// Multiplications up to which panels take a product of a transposed operand. Known: measured as the
// last.
inline constexpr int64_t kPanelWork = 1 << 26;
// Multiplications beyond which they take one of float64. Known: measured as the last.
inline constexpr int64_t kPanelLeast64 = 1 << 20;
// The same, up to which they do. Known: measured as the last.
inline constexpr int64_t kPanelWork64 = 1 << 22;
// Multiplications of a call of oneDNN that a thread is worth waking for. Not measured.
inline constexpr int64_t kOnednnGrain = int64_t{1} << 18;
// Elements of a page: rows that begin at the same positions of pages come slowly into the order of
// oneDNN. Known: measured on processors without AVX-512.
inline constexpr int kPageElements = 1024;
// Plans of oneDNN that a thread keeps. Not measured.
inline constexpr size_t kOnednnPlans = 16;
// Multiplications of products of 16-bit floats that are worth a call of oneDNN. Not measured.
inline constexpr double kOnednnLeast = 0x1p15;
// Terms of the inner sums of a block in the cache. Not measured.
inline constexpr int64_t kSimdDepth = 256;
// Columns of b in it, packed. Not measured.
inline constexpr int64_t kSimdColumns = 1024;
// Rows of a in it. Not measured.
inline constexpr int64_t kSimdRows = 64;
// Rows of a tile of c, which is two vectors wide. Not measured.
inline constexpr int64_t kSimdTileRows = 4;
// Rows of a transposed matrix that are converted at once: whole cache lines. Not measured.
inline constexpr int64_t kConvertedRows = 16;
// Rows of a product of integers in a piece, each of which packs b for itself. Not measured.
inline constexpr int64_t kIntegerRows = 128;
// Multiplications of one tile at most, as far as its sides allow, between two looks at the stop
// flag. Known: a small part of a second.
inline constexpr double kTileWork = 0x1p30;
// Multiplications that an element of the result costs as much as, when its memory is new. Not
// measured.
inline constexpr double kElementWork = 128;
// Terms of inner sums that are computed at once. Not measured.
inline constexpr int64_t kTileDepth = 1 << 16;
// What a tile has rows a multiple of: so many the kernels of BLAS libraries compute at once. Known:
// as those libraries do.
inline constexpr int64_t kTileRows = 8;
// The same of columns. Known: as those libraries do.
inline constexpr int64_t kTileCols = 16;
// The shortest side of a tile that is made only to be able to stop. Not measured.
inline constexpr int64_t kShortestSide = 96;
// Multiplications up to which BLAS takes a product rather than oneDNN. Known: measured on
// processors without AVX-512 and with it.
inline constexpr double kBlasWork = 0x1p16;
// The same of products of AVX-512, for which BLAS has kernels, of operands that are not transposed.
// Known: measured as the last.
inline constexpr double kBlasWorkWide = 0x1p19;
// Without AVX-512, the length of inner sums from which BLAS takes a product of a transposed first
// operand. Known: measured as the last.
inline constexpr int64_t kLongFlipped = 512;
// The rows of the result that such a product has at least. Known: measured as the last.
inline constexpr int64_t kHighFlipped = 128;

}  // namespace gemm

// Sorting and selection.
namespace sort {

// Elements that are compared at once with the last of the first few, which are kept as the row is
// read. Not measured.
inline constexpr int64_t kSkipped = 64;
// Rows of so few keys are partitioned as they are. Not measured.
inline constexpr int64_t kFew = 4096;
// Keys of a sample that narrows a rank down. Not measured.
inline constexpr int64_t kSample = 2048;
// Ranks of the sample on either side that may be wrong. Not measured.
inline constexpr int64_t kMargin = 128;
// Keys that are compared with its bounds at once. Not measured.
inline constexpr int64_t kSampledBlock = 2048;
// So few keys the library partitions. Not measured.
inline constexpr int64_t kShort = 24;
// Rounds of partition after which the library finds the key. Not measured.
inline constexpr int kMostRounds = 32;
// Bits of a digit by which a key is selected. Not measured.
inline constexpr int kSelectBits = 8;
// Keys that are searched at once for a position. Not measured.
inline constexpr int64_t kPositionBlock = 1024;
// Bits of a digit of the radix sort of keys of four bytes: three passes. Not measured.
inline constexpr int kRadixBits32 = 11;
// The same of other keys, whose counts must stay in the cache. Not measured.
inline constexpr int kRadixBits64 = 8;

}  // namespace sort

// Linear algebra.
namespace linalg {

// The most rows and columns of a matrix that our own loops decompose. Not measured.
inline constexpr int kSmallMatrix = 16;
// Columns of a block of sytrf. Known: the block size of LAPACK.
inline constexpr int kSytrfBlock = 32;
// Elements of a block of a dot product; the sums of blocks do not depend on the threads. Not
// measured.
inline constexpr int64_t kDotBlock = 16384;
// Elements of the points that share the cache. Not measured.
inline constexpr int64_t kDistanceElements = 1 << 16;
// Coordinates whose differences are summed in one run, so that sums stay exact. Known: by a bound
// of rounding errors.
inline constexpr int64_t kDistanceRun = 32;

}  // namespace linalg

// Images.
namespace image {

// Columns whose sums are kept while the taps of a row are added. Not measured.
inline constexpr int64_t kColumns = 256;
// Positions of a grid whose weights are computed at once. Not measured.
inline constexpr int64_t kGridBlock = 128;

}  // namespace image

// Norms.
namespace normalization {

// Rows of which a sum in float32 is exact enough. Known: by a bound of rounding errors.
inline constexpr int64_t kFewRows = 64;
// Runs of fewer 16-bit elements come from a tensor that is converted as a whole. Not measured.
inline constexpr int64_t kConvertedRun = 64;
// Rows of so many 16-bit elements are converted one at a time. Not measured.
inline constexpr int64_t kConvertedRow = 64;
// Rows from which a first mean of a channel is taken. Not measured.
inline constexpr int64_t kMeanRows = 64;
// Images of fewer elements of a channel in a row are normalized by columns. Not measured.
inline constexpr int64_t kColumnRun = 32;
// Elements of which sums in float32 are folded into double. Known: by a bound of rounding errors.
inline constexpr int64_t kSumBlock = 2048;

}  // namespace normalization

// Pointwise ops.
namespace pointwise {

// Bytes of a piece of one operand: all of them fit the first cache together. Not measured.
inline constexpr size_t kPieceBytes = 8192;
// Rows of so many elements are worth a piece each. Not measured.
inline constexpr int64_t kLongRow = 256;
// Elements of a piece of rows for which numbers are written. Not measured.
inline constexpr int64_t kConstantPiece = 512;
// Bytes of a piece for a plan so small that touching a large stack frame would show. Not measured.
inline constexpr size_t kSmallPieceBytes = 512;
// Elements of a functor that takes long, between two looks at the stop flag. Not measured.
inline constexpr size_t kSlowBlock = 4096;

}  // namespace pointwise

// Convolution.
namespace conv {

// Multiply-adds that a thread of a library may do between two looks at the stop flag. Known: a
// tenth of a second or two.
inline constexpr double kConvWork = 0x1p32;
// Bytes of the columns of the positions that are laid out at once. Not measured.
inline constexpr int64_t kColumnBytes = int64_t{1} << 18;
// The same where that is too few positions for a product. Not measured.
inline constexpr int64_t kMostColumnBytes = int64_t{1} << 26;
// Positions that are enough for a product. Not measured.
inline constexpr int64_t kEnoughPositions = 512;
// Multiply-adds done in the time that one element of an image takes to be brought into the layout
// of the library, in memory that may be new. Not measured.
inline constexpr double kMove = 128;
// Output channels below which a convolution is computed as a transposed one of its windows turned
// round. Not measured.
inline constexpr int64_t kFewChannels = 4;
// Input channels that it has at least. Not measured.
inline constexpr int64_t kManyChannels = 16;
// Plans of oneDNN that are kept. Not measured.
inline constexpr size_t kOnednnPlans = 256;
// Elements that direct convolution may read behind the last one of a row: more than a vector of
// any processor. Known: by the widest vectors.
inline constexpr int64_t kDirectSlack = 64;
// Channels of the result that it computes at once: their weights and sums fill the registers.
// Known: by the number of registers.
inline constexpr int64_t kDirectOutputs = 4;
// Vectors of each of them. Known: as the last.
inline constexpr int kDirectVectors = 4;
// Taps whose sums it keeps in registers. Known: as the last.
inline constexpr int64_t kDirectTaps = 9;
// Bytes of the rows that it lays out at once. Not measured.
inline constexpr int64_t kDirectBytes = 1 << 16;
// Multiply-adds that are worth the tables of a shape. Not measured.
inline constexpr int64_t kDirectWork = 1 << 20;
// Elements of a row up to which a call for its copy takes longer than the copy. Not measured.
inline constexpr int64_t kDirectRow = 16;
// Channels of a group, of the input and of the result, up to which it is taken. Known: measured
// with AVX-512.
inline constexpr int64_t kDirectChannels = 4;
// Positions of images from which it is faster than oneDNN for groups of more than one channel.
// Known: measured as the last.
inline constexpr int64_t kDirectGroupedPlane = 20 * 20;
// The same of single channels. Known: measured as the last.
inline constexpr int64_t kDirectPlane = 50 * 50;
// Elements that such images have in all: too many for the cache. Known: measured as the last.
inline constexpr int64_t kDirectElements = int64_t{1} << 21;
// The same for the gradient of the images. Known: measured as the last.
inline constexpr int64_t kDirectGradPlane = 100 * 100;

}  // namespace conv

// Pooling.
namespace pool {

// Elements that are converted at a time at least, where a plane has fewer. Not measured.
inline constexpr int64_t kConverted = 4096;
// A run of a window that is this long is computed by vectors of its own. Not measured.
inline constexpr int64_t kLongRun = 32;
// Converted elements that a sorted entry costs as much as. Not measured.
inline constexpr int64_t kSortedCost = 16;
// Channels at a time: accumulators that stay in the first cache. Not measured.
inline constexpr int64_t kChannelRun = 64;
// Vectors of channels whose means are computed together. Not measured.
inline constexpr size_t kMeanVectors = 4;
// Channels that a thread takes of an image when it adds to its elements. Not measured.
inline constexpr int64_t kThreadChannels = 64;

}  // namespace pool

// Gather, scatter and indexing.
namespace index {

// Bytes that the elements of a strip that positions may name should take of the cache. Not
// measured.
inline constexpr int64_t kReach = 256 << 10;
// The fewest columns of a strip. Not measured.
inline constexpr int64_t kLeastColumns = 16;
// Rows ahead of the copy that are prefetched. Not measured.
inline constexpr int64_t kAhead = 8;
// Cache lines of a row that are prefetched at most. Not measured.
inline constexpr int64_t kMostLines = 8;
// Elements that a copy costs as much as, besides its own. Not measured.
inline constexpr int64_t kCopyCost = 256;
// The fewest columns of a block that are shared out among threads. Not measured.
inline constexpr int64_t kFoldColumns = 128;
// Rows so long are worth a call each. Not measured.
inline constexpr int64_t kFoldedRow = 32;
// Elements of a piece that has a float32 copy, for each thread. Not measured.
inline constexpr int64_t kScatterPiece = 1 << 14;
// Positions that are found at once of what is set. Not measured.
inline constexpr int64_t kFound = 1024;
// Values that are searched for at once, whose loads go on side by side. Not measured.
inline constexpr int kSearchGroup = 8;

}  // namespace index

// Fourier transforms.
namespace fft {

// Rows shorter than this are transformed several at a time. Not measured.
inline constexpr int64_t kShort = 64;
// Points whose four arrays stay in a core's cache. Not measured.
inline constexpr int64_t kCached = 1 << 15;
// The largest prime factor that passes take; beyond, a convolution does less work. Not measured.
inline constexpr int64_t kLargestRadix = 79;
// Fewer positions than this do not fill a vector. Not measured.
inline constexpr int64_t kFewPositions = 8;
// Rows ahead that are fetched before they are read. Not measured.
inline constexpr int64_t kAhead = 12;
// Plans that are kept. Not measured.
inline constexpr size_t kPlans = 64;
// Points of all plans that are kept together. Not measured.
inline constexpr int64_t kPlannedPoints = 1 << 22;

}  // namespace fft

// Copies, conversions and new tensors.
namespace copy {

// Elements that a thread should have at least to copy: to move one is less than a step. Not
// measured.
inline constexpr int64_t kCopyGrain = 2 * kGrain;
// The side of a transposed block. Not measured.
inline constexpr int64_t kTransposedSide = 64;
// The width of a piece of a transposed copy at most, which is one block high. Not measured.
inline constexpr int64_t kAcross = 1024 * kTransposedSide;
// Elements of a long row that are copied at once: of longer ones the C library would keep nothing
// in the cache. Not measured.
inline constexpr int64_t kRowPiece = 1 << 17;
// Elements of a run of interleaved rows, whose cache lines are still there for the next. Not
// measured.
inline constexpr int64_t kInterleavedRun = 1024;
// Rows of fewer elements cost less than a call for each. Not measured.
inline constexpr int64_t kShortRow = 16;
// The same in bytes. Not measured.
inline constexpr int64_t kShortRowBytes = 16;
// Bytes that are copied between two looks at the stop flag: enough for the ways that the C library
// has for memory larger than the cache. Not measured.
inline constexpr int64_t kByteBlock = 8 << 20;
// Columns of a triangle that are so few that a call for each row costs more. Not measured.
inline constexpr int64_t kFewColumns = 16;
// Elements that go through a dtype between, at once. Not measured.
inline constexpr size_t kConvertedBlock = 512;
// Bytes moved that cost as much as an elementary step does. Not measured.
inline constexpr int64_t kBytesPerStep = 32;
// Rows of fewer elements are flipped without a call for each. Not measured.
inline constexpr int64_t kFlippedRow = 8;
// Runs of fewer elements take less time than a call takes. Not measured.
inline constexpr int64_t kShortRun = 8;
// Of so many equal elements whole vectors are written. Not measured.
inline constexpr int64_t kEqualRun = 128;

}  // namespace copy

// Reductions, scans and softmax.
namespace reduce {

// The longest row whose exponentials are summed across rows. Not measured.
inline constexpr int64_t kShortRow = 32;
// Elements that one call of Reducer::run gets. Not measured.
inline constexpr int64_t kRunLength = 8192;
// The most columns that one call of Reducer::rows gets. Not measured.
inline constexpr int64_t kColumns = 4096;
// Elements that are compared at once in the search for a known value. Not measured.
inline constexpr int64_t kFirstBlock = 64;
// Elements of a run whose extreme is found before its position. Not measured.
inline constexpr int64_t kArgBlock = 4096;
// Runs that are so short are searched element by element. Not measured.
inline constexpr int64_t kArgShort = 16;
// Elements of a piece of one long run that all threads search. Not measured.
inline constexpr int64_t kArgPiece = 1 << 16;
// Columns that are searched side by side. Not measured.
inline constexpr int64_t kArgTile = 256;
// Columns that a thread takes at once. Not measured.
inline constexpr int64_t kArgColumns = 1024;
// Elements that are converted at once for a search. Not measured.
inline constexpr int64_t kArgPart = int64_t{1} << 20;
// Rows of few columns that are taken for one, which vectors fit in. Not measured.
inline constexpr int64_t kNarrowRows = 16;
// The most columns of such rows. Not measured.
inline constexpr int64_t kNarrowColumns = 8;
// Rows whose exponentials are summed side by side. Not measured.
inline constexpr int64_t kLogRows = 64;
// Columns that are scanned side by side. Not measured.
inline constexpr int64_t kScanTile = 64;
// Rows that are scanned together. Not measured.
inline constexpr int kScanRows = 4;
// Columns that a thread takes at once. Not measured.
inline constexpr int64_t kScanColumns = 512;
// Elements of a row that are looked at at once for a new extreme. Not measured.
inline constexpr int64_t kScanBlock = 64;
// Rows that are added one after the other; more are halved, so that rounding errors stay small.
// Known: by a bound of rounding errors.
inline constexpr int64_t kGroupRows = 128;
// Elements of a piece of an outer reduction, whatever the number of threads. Not measured.
inline constexpr int64_t kPiece = 1 << 18;
// Columns that softmax works on at a time. Not measured.
inline constexpr int64_t kSoftmaxTile = 128;
// Additions in float32 after which a sum goes on in double. Known: by a bound of rounding errors.
inline constexpr int kSoftmaxSum = 64;
// Elements of 16-bit rows that are widened together. Not measured.
inline constexpr int64_t kSoftmaxWidened = 8192;
// Elements of a run that are converted at once. Not measured.
inline constexpr int64_t kConvertedBlock = 2048;
// Longer runs are halved, so that rounding errors stay small. Known: by a bound of rounding errors.
inline constexpr int kLongRun = 512;
// Fewer elements than are worth a call of the loop of vectors. Not measured.
inline constexpr int64_t kFewElements = 8;

}  // namespace reduce

}  // namespace moonlet::thresholds
