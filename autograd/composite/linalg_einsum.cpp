// autograd/composite/linalg_einsum.cpp: sums of products by Einstein's convention: the equation is
// read into labels, and operands are multiplied in pairs by batched matrix products.
#include <algorithm>
#include <array>
#include <numeric>

#include "autograd/uses_composite_linalg_einsum.h"
#include "tensor/runtime/interrupt.h"

namespace moonlet {
namespace {

// Letters are labels 0 to 51, in the order of their codes; the dimensions under "..." are the
// labels from kEllipsis on, the last one the highest.
constexpr int kLetters = 52, kEllipsis = kLetters, kLabels = kLetters + kMaxDims;
using Labels = std::vector<int>;

struct Term {
  Tensor x;
  Labels labels;  // one for each dimension, none twice
};

int letter_label(char c) { return c <= 'Z' ? c - 'A' : c - 'a' + 26; }
char label_letter(int label) {
  return static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26);
}
std::string label_text(int label) {
  return label < kLetters ? std::string(1, label_letter(label)) : std::string("...");
}
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}
int position(const Labels& labels, int label) {
  return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}

constexpr int kDots = -1;  // "..." before its dimensions are known

// The labels of one side's term, kDots for an ellipsis.
Labels read_term(std::string_view text) {
  Labels out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text.substr(i, 3) == "...") {
      check(!has(out, kDots), "einsum: a second ... in \"", text, "\"");
      out.push_back(kDots);
      i += 2;
      continue;
    }
    check(is_letter(text[i]), "einsum: \"", text.substr(i, 1),
          "\" in the equation; letters, ... , ", "commas and one -> are expected");
    out.push_back(letter_label(text[i]));
  }
  return out;
}

struct Equation {
  std::vector<Labels> inputs;
  std::optional<Labels> output;
};

Equation read_equation(std::string_view text) {
  Equation out;
  if (const size_t arrow = text.find("->"); arrow != text.npos) {
    out.output = read_term(text.substr(arrow + 2));
    text = text.substr(0, arrow);
  }
  for (size_t start = 0;;) {
    const size_t comma = text.find(',', start);
    out.inputs.push_back(read_term(text.substr(start, comma - start)));
    if (comma == text.npos) return out;
    start = comma + 1;
  }
}

// "..." replaced by labels for `count` dimensions.
Labels with_ellipsis(const Labels& term, int count) {
  Labels out;
  for (int label : term) {
    if (label != kDots) {
      out.push_back(label);
      continue;
    }
    for (int i = kMaxDims - count; i < kMaxDims; ++i) out.push_back(kEllipsis + i);
  }
  return out;
}

// The dimensions of operand number `at` that its "..." stands for.
int ellipsis_dims(const Labels& term, const Tensor& x, size_t at) {
  const bool dots = has(term, kDots);
  const int named = static_cast<int>(term.size()) - dots;
  check(dots ? x.dim() >= named : x.dim() == named, "einsum: operand ", at + 1, " has shape ",
        x.sizes(), ", and the equation ", dots ? "at least " : "", named, " dimensions");
  return x.dim() - named;
}

// x with one dimension for each label: diagonals where a label comes twice.
Term distinct(Tensor x, Labels labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t j = i + 1; j < labels.size();) {
      if (labels[j] != labels[i]) {
        ++j;
        continue;
      }
      const int a = static_cast<int>(i), b = static_cast<int>(j);
      check(x.size(a) == x.size(b), "einsum: the sizes of ", label_text(labels[i]),
            " differ in an operand of shape ", x.sizes());
      x = movedim(diagonal(x, 0, a, b), {x.dim() - 2}, {a});
      labels.erase(labels.begin() + b);
    }
  }
  return {x, labels};
}

// Throws unless each label has one size, or 1, in all terms.
void check_sizes(const std::vector<Term>& terms) {
  std::array<int64_t, kLabels> sizes;
  sizes.fill(1);
  for (const Term& term : terms) {
    for (size_t i = 0; i < term.labels.size(); ++i) {
      const int64_t size = term.x.size(static_cast<int>(i));
      int64_t& known = sizes[term.labels[i]];
      check(known == 1 || size == 1 || known == size, "einsum: ", label_text(term.labels[i]),
            " has size ", known, " in one operand and ", size, " in another");
      if (size != 1) known = size;
    }
  }
}

// The result's labels where the equation does not say: the dimensions of "...", then the letters
// that occur once.
Labels implicit_output(const std::vector<Labels>& inputs) {
  std::array<int, kLetters> count{};
  for (const Labels& term : inputs)
    for (int label : term)
      if (label != kDots) ++count[label];
  Labels out{kDots};
  for (int label = 0; label < kLetters; ++label)
    if (count[label] == 1) out.push_back(label);
  return out;
}

void check_output(const Labels& output, const std::vector<Labels>& inputs) {
  for (size_t i = 0; i < output.size(); ++i) {
    const int label = output[i];
    if (label == kDots) continue;
    check(std::count(output.begin(), output.end(), label) == 1, "einsum: ", label_text(label),
          " occurs twice in the result");
    check(
        std::any_of(inputs.begin(), inputs.end(), [&](const Labels& in) { return has(in, label); }),
        "einsum: ", label_text(label), " of the result is in no operand");
  }
}

// The term summed over the labels that nobody else needs.
Term summed(Term term, const Labels& needed) {
  Dims gone;
  Labels kept;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    if (has(needed, term.labels[i]))
      kept.push_back(term.labels[i]);
    else
      gone.push_back(static_cast<int64_t>(i));
  }
  if (gone.empty()) return term;
  const DType dtype = term.x.dtype();
  return {sum(term.x, gone, false, dtype), kept};
}

// The term without dimensions of size 1 that are larger in `other`, which stretch them.
Term without_stretched(const Term& term, const Term& other) {
  Dims gone;
  Labels kept;
  for (size_t i = 0; i < term.labels.size(); ++i) {
    const int label = term.labels[i], dim = static_cast<int>(i);
    const bool stretched = term.x.size(dim) == 1 && has(other.labels, label) &&
                           other.x.size(position(other.labels, label)) != 1;
    if (stretched)
      gone.push_back(dim);
    else
      kept.push_back(label);
  }
  return gone.empty() ? term : Term{squeeze(term.x, gone), kept};
}

// The labels of both terms by what a product of the two does with them.
struct Roles {
  Labels batch, left, right, inner;
};

Roles roles_of(const Term& a, const Term& b, const Labels& needed) {
  Roles out;
  for (int label : a.labels) {
    if (!has(b.labels, label))
      out.left.push_back(label);
    else
      (has(needed, label) ? out.batch : out.inner).push_back(label);
  }
  for (int label : b.labels)
    if (!has(a.labels, label)) out.right.push_back(label);
  return out;
}

int64_t size_of_label(const Term& term, int label) {
  return term.x.size(position(term.labels, label));
}

int64_t joined_size(const Term& term, const Labels& labels) {
  int64_t out = 1;
  for (int label : labels) out = checked_mul(out, size_of_label(term, label), "einsum");
  return out;
}

// The dimensions of the term in that order.
Tensor ordered(const Term& term, const std::vector<const Labels*>& groups) {
  Dims dims;
  for (const Labels* group : groups)
    for (int label : *group) dims.push_back(position(term.labels, label));
  return permute(term.x, dims);
}

// Products of all elements of both, with no sum: by broadcasting.
Tensor elementwise(const Term& a, const Term& b, const Roles& roles) {
  Tensor left = ordered(a, {&roles.batch, &roles.left});
  const Tensor right = ordered(b, {&roles.batch, &roles.right});
  Dims sizes = left.sizes();
  for (size_t i = 0; i < roles.right.size(); ++i) sizes.push_back(1);
  Dims right_sizes;
  for (size_t i = 0; i < roles.batch.size(); ++i)
    right_sizes.push_back(right.size(static_cast<int>(i)));
  for (size_t i = 0; i < roles.left.size(); ++i) right_sizes.push_back(1);
  for (int label : roles.right) right_sizes.push_back(size_of_label(b, label));
  return mul(reshape(left, sizes), reshape(right, right_sizes));
}

Tensor by_matrices(const Term& a, const Term& b, const Roles& roles) {
  const int64_t batch = joined_size(a, roles.batch), rows = joined_size(a, roles.left),
                inner = joined_size(a, roles.inner), cols = joined_size(b, roles.right);
  const Tensor left = ordered(a, {&roles.batch, &roles.left, &roles.inner});
  const Tensor right = ordered(b, {&roles.batch, &roles.inner, &roles.right});
  Dims sizes;
  for (int label : roles.batch) sizes.push_back(size_of_label(a, label));
  for (int label : roles.left) sizes.push_back(size_of_label(a, label));
  for (int label : roles.right) sizes.push_back(size_of_label(b, label));
  if (roles.batch.empty())
    return reshape(mm(reshape(left, {rows, inner}), reshape(right, {inner, cols})), sizes);
  return reshape(bmm(reshape(left, {batch, rows, inner}), reshape(right, {batch, inner, cols})),
                 sizes);
}

Term product_of(const Term& first, const Term& second, const Labels& needed) {
  Term a = without_stretched(first, second), b = without_stretched(second, first);
  Labels for_a = needed, for_b = needed;
  for_a.insert(for_a.end(), b.labels.begin(), b.labels.end());
  for_b.insert(for_b.end(), a.labels.begin(), a.labels.end());
  a = summed(a, for_a);
  b = summed(b, for_b);
  const Roles roles = roles_of(a, b, needed);
  Labels labels = roles.batch;
  labels.insert(labels.end(), roles.left.begin(), roles.left.end());
  labels.insert(labels.end(), roles.right.begin(), roles.right.end());
  return {roles.inner.empty() ? elementwise(a, b, roles) : by_matrices(a, b, roles), labels};
}

// The multiplications that the product of two terms takes.
double cost_of(const Term& a, const Term& b) {
  double cost = static_cast<double>(a.x.numel());
  for (size_t i = 0; i < b.labels.size(); ++i)
    if (!has(a.labels, b.labels[i])) cost *= static_cast<double>(b.x.size(static_cast<int>(i)));
  return cost;
}

// The labels that the result or one of the terms other than i and j has.
Labels needed_beside(const std::vector<Term>& terms, size_t i, size_t j, const Labels& output) {
  Labels out = output;
  for (size_t k = 0; k < terms.size(); ++k)
    if (k != i && k != j) out.insert(out.end(), terms[k].labels.begin(), terms[k].labels.end());
  return out;
}

// Multiplies the pair that costs least until one term is left.
Term contract(std::vector<Term> terms, const Labels& output) {
  for (size_t i = 0; i < terms.size(); ++i)
    terms[i] = summed(terms[i], needed_beside(terms, i, i, output));
  while (terms.size() > 1) {
    stop_if_requested();
    size_t left = 0, right = 1;
    for (size_t i = 0; i < terms.size(); ++i)
      for (size_t j = i + 1; j < terms.size(); ++j)
        if (cost_of(terms[i], terms[j]) < cost_of(terms[left], terms[right])) left = i, right = j;
    terms[left] = product_of(terms[left], terms[right], needed_beside(terms, left, right, output));
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(right));
  }
  return terms[0];
}

}  // namespace

Tensor einsum_composite(std::string_view equation, const std::vector<Tensor>& operands) {
  const Equation read = read_equation(equation);
  check(!operands.empty(), "einsum: at least one operand is expected");
  check(read.inputs.size() == operands.size(), "einsum: the equation has ", read.inputs.size(),
        " operands, and ", operands.size(), " came");
  const Labels asked = read.output ? *read.output : implicit_output(read.inputs);
  check_output(asked, read.inputs);
  std::vector<Term> terms;
  int widest = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    check(operands[i].dtype() == operands[0].dtype(),
          "einsum: dtypes differ: ", operands[0].dtype(), " and ", operands[i].dtype());
    const int dims = ellipsis_dims(read.inputs[i], operands[i], i);
    widest = std::max(widest, dims);
    terms.push_back(distinct(operands[i], with_ellipsis(read.inputs[i], dims)));
  }
  check_sizes(terms);
  const Labels output = with_ellipsis(asked, widest);
  check(output.size() <= kMaxDims, "einsum: the result has ", output.size(),
        " dimensions, at most ", kMaxDims, " are possible");
  const Term result = contract(terms, output);
  return ordered(result, {&output});
}

}  // namespace moonlet
