// Operations on tensors: each checks its shapes, counts its cost on `meta`, and otherwise runs the
// device's kernel on the stream.  Formulas, shapes and the order of sums stand in kernels/NAME.h.
// A wrong shape is our bug: Exit::internal.  Outputs come first; forward and backward stand in
// pairs.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>

#include "kernels/activation.h"
#include "kernels/adam.h"
#include "kernels/attention.h"
#include "kernels/attention_part.h"
#include "kernels/dropout.h"
#include "kernels/fp8_format.h"
#include "kernels/preference_loss.h"
#include "kernels/qkv.h"
#include "kernels/relative_bias.h"
#include "kernels/row_block.h"
#include "kernels/sample.h"
#include "kernels/score_loss.h"
#include "kernels/update.h"
#include "tensor/param.h"
#include "tensor/stream.h"
#include "tensor/tensor.h"

namespace mt {

struct RouterRules;  // kernels/experts.h

// A norm of rows, as layer_norm_forward(), or with `centred` off as rms_norm_forward(); their w is
// weight + offset.
struct RowNorm {
  ConstTensor weight, bias = {};
  double eps = 0, offset = 0;
  bool centred = false;
};

struct Matmul {
  Tensor out;                  // [m, n] = op(a) op(b) (+ out) (+ bias)
  ConstTensor a = {}, b = {};  // [m, k] and [k, n] after transposition
  bool transpose_a = false, transpose_b = false, accumulate = false;
  ConstTensor bias = {};  // [n] or empty
  // What becomes of the sum z before it is stored, GeLU being in its tanh form:
  //   gelu           out = gelu(z), and z itself goes to `at`, if that is given
  //   gelu_gradient  out = z gelu'(at)
  //   swiglu         out [m, n/2] = silu(z[:, :n/2]) z[:, n/2:], and z may go to `at`, which is
  //   given
  enum class Then : std::uint8_t { store, gelu, gelu_gradient, swiglu } then = Then::store;
  Tensor at = {};             // [m, n]
  ConstTensor residual = {};  // [m, n] or empty: out = residual + (op(a) op(b) + bias)
  // Where takes_norm(): the rows of `a` are normalised on their way; weight empty: they are not.
  RowNorm norm = {};
  // What is read next, where nothing else is until then: a GPU's product of few rows brings the
  // first of it near meanwhile.  Changes no result.
  ConstTensor ahead = {};
  // How many rows a has is another at most calls: on GPUs no algorithm is searched for.
  bool rows_vary = false;
  // Each row gets the bits that it gets alone, however many there are (kernels/few_rows.h,
  // kernels/gemm.h); of a transposed b, and not of gelu_gradient.  Without this up to kFewRows do.
  bool rows_alone = false;
  // b is u8, bytes of PackedRows (kernels/packed_rows.h), of which as many rows are multiplied as
  // out has columns: on the CPU, in f32, of transpose_b alone, and each row gets the bits that it
  // gets alone.
  bool packed = false;
  // Not null: b is u8, such tiles (kernels/packed_tiles.h), of which as many rows are multiplied as
  // out has columns: on a GPU, in bf16, of transpose_b alone.  Few rows, and up to kTilesAlone rows
  // alone, are multiplied with what lies there, for which kernels/packed_few_rows.h says what is
  // rounded; more of them with the numbers that it stands for, rounded to a's type: so each row
  // gets the bits that it gets alone only while there are no more.
  const PackedTiles* tiles = nullptr;
  // Whether what was queued last writes b: kernels of few rows, which begin to read it ahead of
  // their turn (kernels/few_rows.h), then wait for that.
  bool b_is_new = false;
  // Where a, [m, k], and b, [n, k], are codes of eight bits, u8, and so transpose_b alone is true:
  // what they stand for, as of Fp8Gemm; or, of E4M3 in blocks, as of Fp8BlockGemm.
  struct Codes {
    // [1] f32; empty: a and b are numbers.  Of blocks: [blocks, n] and as many rows of a, of which
    // those from first_row on are multiplied.
    ConstTensor a_inverse = {}, b_inverse = {};
    Fp8Format a = Fp8Format::e4m3, b = Fp8Format::e4m3;
    bool fast = false;
    bool blocks = false, squares = false;
    std::int64_t first_row = 0;
    explicit operator bool() const { return static_cast<bool>(a_inverse); }
  } codes = {};
  // One of grouped_matmul()'s whose rows are counted on the device: a, and out, or b where a is
  // transposed, have the rows of all groups, and this problem is of those from ends[number - 1] on,
  // or from 0, to ends[number].  ends: [groups] i32.
  struct OfGroup {
    ConstTensor ends = {};
    std::int64_t number = 0;
    explicit operator bool() const { return static_cast<bool>(ends); }
  } group = {};
};
// Whether the GPU has a kernel for few rows and tiles.
bool has_tiles_products();
// Whether matmul() takes a norm along: of few rows on a GPU (kernels/few_rows.h).
bool takes_norm(const Matmul& problem);
void matmul(const Matmul& problem, Stream& stream);
// The products of problems that are alike but for how many rows their `a` has, which may be none,
// as those of a layer's experts are.  Of bf16, without more than the product, Hopper makes those
// whose rows lie behind one another and whose matrices lie evenly in one kernel
// (kernels/grouped_gemm.h).
void grouped_matmul(std::span<const Matmul> problems, Stream& stream);
// Whether it takes problems of so many groups whose rows are counted on the device, where matrices
// of this type have so many rows or columns.
bool counts_groups(Device device, DType dtype, std::int64_t groups,
                   std::initializer_list<std::int64_t> widths);
// From now on a GPU's products of each new shape are made by the fastest of cuBLASLt's algorithms:
// GemmLibrary::search().  Changes no bit.
void search_products(Stream& stream);
// Once a GPU is as hot as it stays: GemmLibrary::search_again().  Whether that makes a difference;
// then no graph that was captured before is to be launched.
bool search_products_again(Stream& stream);

void layer_norm_forward(Tensor y, Tensor mean, Tensor rstd, ConstTensor x, ConstTensor w,
                        ConstTensor b, double eps, Stream& stream);
// The backward of a norm that x also went past: dx = residual + the gradient through the norm.
// residual may be empty, and is not dx.
void layer_norm_backward(Tensor dx, Tensor dw, Tensor db, ConstTensor residual, ConstTensor dy,
                         ConstTensor x, ConstTensor mean, ConstTensor rstd, ConstTensor w,
                         Stream& stream);

void rms_norm_forward(Tensor y, Tensor rstd, ConstTensor x, ConstTensor w, double eps,
                      Stream& stream);
void rms_norm_backward(Tensor dx, Tensor dw, ConstTensor residual, ConstTensor dy, ConstTensor x,
                       ConstTensor rstd, ConstTensor w, Stream& stream);

void gelu_forward(Tensor y, ConstTensor x, GeluForm form, Stream& stream);
void gelu_backward(Tensor dx, ConstTensor dy, ConstTensor x, GeluForm form, Stream& stream);
void relu_forward(Tensor y, ConstTensor x, Stream& stream);
void relu_backward(Tensor dx, ConstTensor dy, ConstTensor x, Stream& stream);
void squared_relu_forward(Tensor y, ConstTensor x, Stream& stream);
void squared_relu_backward(Tensor dx, ConstTensor dy, ConstTensor x, Stream& stream);
void tanh_forward(Tensor y, ConstTensor x, Stream& stream);
void tanh_backward(Tensor dx, ConstTensor dy, ConstTensor y, Stream& stream);
void swiglu_forward(Tensor y, ConstTensor x, Stream& stream);
void swiglu_backward(Tensor dx, ConstTensor dy, ConstTensor x, Stream& stream);
void clamped_forward(Tensor y, ConstTensor x, const ClampedGate& of, Stream& stream);
void clamped_backward(Tensor dx, ConstTensor dy, ConstTensor x, const ClampedGate& of,
                      Stream& stream);
void geglu_forward(Tensor y, ConstTensor x, Stream& stream);
void geglu_backward(Tensor dx, ConstTensor dy, ConstTensor x, Stream& stream);

// Which experts tokens go to, and the way there and back (kernels/experts.h).  expert, place:
// [rows, chosen] i32; weight: as they, bias: [experts], or keys as the
// logits, dots: [rows], of the sum_dtype; ends: i32,
// of the experts from the first on.  The rules need not have the sizes that the tensors have.
void choose_experts(Tensor expert, Tensor weight, ConstTensor logits, ConstTensor bias,
                    const RouterRules& rules, Stream& stream);
void choose_experts_backward(Tensor d_logits, ConstTensor d_weight, ConstTensor logits,
                             ConstTensor expert, const RouterRules& rules, Stream& stream);
void place_rows(Tensor place, Tensor ends, ConstTensor expert, std::int64_t first, Stream& stream);
void spread_rows(Tensor out, ConstTensor x, ConstTensor place, Stream& stream);
void gather_rows(Tensor y, ConstTensor x, ConstTensor place, Stream& stream);
void row_dots(Tensor dots, ConstTensor a, ConstTensor b, Stream& stream);
// SwiGLU of rows x, times w, [rows], of the sum_dtype (kernels/weighted_swiglu.h).
void weighted_swiglu_forward(Tensor y, ConstTensor x, ConstTensor w, Stream& stream);
void weighted_swiglu_backward(Tensor dx, Tensor dw, ConstTensor dy, ConstTensor x, ConstTensor w,
                              Stream& stream);

// x: [tokens, heads, head_dim], in place;  inv_freq: [rotary_dim / 2] f64 of host memory.  Token t
// stands at position first_position + t % seq_length.
struct Rope {
  ConstTensor inv_freq;
  bool interleaved = false;
  std::int64_t seq_length = 0;
  std::int64_t packed_group = 0;  // kernels/rope.h, as the next
  double magnitude = 1;
  std::int64_t first_position = 0;
};
void rope(Tensor x, const Rope& rope, bool inverse, Stream& stream);

void qkv_split(Tensor q, Tensor k, Tensor v, ConstTensor qkv, Stream& stream);
void qkv_merge(Tensor qkv, ConstTensor q, ConstTensor k, ConstTensor v, Stream& stream);

// Generation.  angles: [tokens, rotary dimension] of the sum_dtype, made from inv_freq, as of Rope,
// and positions, [tokens] i32.
void rope_angles(Tensor angles, ConstTensor inv_freq, ConstTensor positions, double magnitude,
                 Stream& stream);

// Tokens that follow those in a cache: their keys and values go there (kernels/cached_qkv.h), and o
// is what their queries find (attention.h).  keys, values: [slots, capacity, kv heads, head_dim];
// slots: [sequences, runs] i32, or empty: the i-th of as many slots is sequence i's.  q, [tokens,
// heads, head_dim], and lse, as of attention_forward(), are scratch.  shape.kv_slots is slots'.
struct CachedAttention {
  Tensor o, keys, values, q, lse;
  // Scratch where the keys and values of a single sequence are brought together, which a GPU then
  // reads faster than in their slots: [slots that it uses, capacity, kv heads, head_dim].  Empty:
  // they are not.
  Tensor joined_keys = {}, joined_values = {};
  ConstTensor qkv, positions, slots = {};
  ConstTensor angles = {};  // empty: nothing turns
  ConstTensor first_key = {};
  bool interleaved = false;
  AttentionShape shape = {};
  bool needs_lse = false;  // otherwise lse may stay as it is
  bool repeats = false;    // a sequence may come several times, with a token more each time
};
void cached_attention(const CachedAttention& problem, Stream& stream);

// Without k and v, q holds the rows of a fused projection, and without dk and dv dq those of its
// gradient: [tokens, (heads + 2 kv_heads) head_dim].  Without v alone, k holds the rows of a
// projection to both, and without dv dk those of its gradient: [tokens, 2 kv_heads head_dim].
// first_key: [sequences q_length] i32, or empty for 0 everywhere.
void attention_forward(Tensor o, Tensor lse, ConstTensor q, ConstTensor k, ConstTensor v,
                       ConstTensor first_key, const AttentionShape& shape, const Dropout& dropout,
                       Stream& stream);
void attention_backward(Tensor dq, Tensor dk, Tensor dv, ConstTensor d_o, ConstTensor o,
                        ConstTensor lse, ConstTensor q, ConstTensor k, ConstTensor v,
                        ConstTensor first_key, const AttentionShape& shape, const Dropout& dropout,
                        Stream& stream);

// d_bias: of the sum_dtype, overwritten.
void attention_bias_backward(Tensor d_bias, ConstTensor d_o, ConstTensor o, ConstTensor lse,
                             ConstTensor q, ConstTensor k, ConstTensor v, ConstTensor first_key,
                             const AttentionShape& shape, const Dropout& dropout, Stream& stream);

// ALiBi's bias (kernels/alibi.h), in the sum_dtype, on the CPU.
void alibi(Tensor bias, std::int64_t all_heads, std::int64_t first_head, Stream& stream);
// The bias of relative positions (kernels/relative_bias.h), in the sum_dtype.  d_table is added to.
void relative_bias(Tensor bias, ConstTensor table, std::int64_t first_head,
                   const RelativeBuckets& buckets, Stream& stream);
void relative_bias_backward(Tensor d_table, ConstTensor d_bias, std::int64_t first_head,
                            const RelativeBuckets& buckets, Stream& stream);

// A part of one sequence (kernels/attention_part.h).  lse, of the sum_dtype, is one dimension from
// the first element that is used to the last.  o, dq, and dk with dv are of q's type or of the
// sum_dtype; dq of the latter where dk is.  No first_key and no window on GPUs.
void attention_part_forward(Tensor o, Tensor lse, ConstTensor q, ConstTensor k, ConstTensor v,
                            ConstTensor first_key, const AttentionShape& shape,
                            const AttentionRange& range, const Dropout& dropout,
                            AttentionSoFar so_far, Stream& stream);
void attention_part_backward(Tensor dq, Tensor dk, Tensor dv, ConstTensor d_o, ConstTensor o,
                             ConstTensor lse, ConstTensor q, ConstTensor k, ConstTensor v,
                             ConstTensor first_key, const AttentionShape& shape,
                             const AttentionRange& range, const Dropout& dropout,
                             AttentionSoFar so_far, Stream& stream);

// residual and bias may be empty.
void bias_dropout_add(Tensor y, ConstTensor residual, ConstTensor x, ConstTensor bias,
                      const Dropout& dropout, Stream& stream);
void dropout_backward(Tensor dx, ConstTensor dy, const Dropout& dropout, Stream& stream);

// ids: [rows] i32; the table holds the words from `first` on, the others' rows are zeros.
void embedding_forward(Tensor y, ConstTensor ids, ConstTensor table, std::int64_t first,
                       bool accumulate, Stream& stream);
// Does what embedding_forward() does, of a table of PackedRows, u8, which has y's columns.
void packed_embedding(Tensor y, ConstTensor ids, ConstTensor table, std::int64_t first,
                      Stream& stream);
// ... of a table of tiles, whose rows are of one type, on a GPU.
void tiles_embedding(Tensor y, ConstTensor ids, ConstTensor table, const PackedTiles& form,
                     std::int64_t first, Stream& stream);
// The numbers that tiles stand for, [rows, cols], on a GPU.
void unpack_tiles(Tensor y, ConstTensor tiles, const PackedTiles& form, Stream& stream);
void embedding_backward(Tensor dtable, ConstTensor ids, ConstTensor dy, std::int64_t first,
                        Stream& stream);

// row_weight empty: loss only; else logits become their gradient.  Of the columns of the logits the
// first `vocab` count.
void cross_entropy(Tensor loss, Tensor logits, ConstTensor labels, ConstTensor row_weight,
                   std::int64_t vocab, double smoothing, Stream& stream);
// row_weight empty: loss only; else x becomes its gradient.
void score_loss(Tensor loss, Tensor x, ConstTensor targets, ConstTensor row_weight, ScoreLoss kind,
                Stream& stream);
// Dynamic finetuning's losses (kernels/dft_loss.h): all [tokens]; x becomes by how much the
// objective changes with the tokens' -log p, unless weight is empty.
void dft_loss(Tensor loss, Tensor x, ConstTensor weight, Stream& stream);
// Losses of pairs (kernels/preference_loss.h): loss [5, units], x [units, 2], which becomes its
// gradient unless weight is empty.  tokens, reference and values may be empty.
struct PreferenceProblem {
  Tensor loss, x;
  ConstTensor tokens = {}, reference = {}, values = {}, share, weight = {};
};
void preference_loss(const PreferenceProblem& problem, const PreferenceRules& rules,
                     Stream& stream);
// Sums over the tokens of each text and the way back (kernels/text_sums.h): x and mask [rows
// tokens], lengths [rows texts] i32 of so many rows, sums [2, rows texts], slope [rows texts].
void text_sums(Tensor sums, ConstTensor x, ConstTensor mask, ConstTensor lengths, std::int64_t rows,
               Stream& stream);
void spread_over_texts(Tensor x, ConstTensor slope, ConstTensor mask, ConstTensor lengths,
                       std::int64_t rows, Stream& stream);
// Cross-entropy where the logits are the columns from `first` on of a vocabulary of `vocab`: two
// calls, between which the sums of all who hold columns are gathered (kernels/cross_entropy.h).
// sums: [4, rows], then [ranks, 4, rows].
void cross_entropy_sums(Tensor sums, ConstTensor logits, ConstTensor labels, std::int64_t first,
                        std::int64_t vocab, Stream& stream);
struct CrossEntropyPart {
  Tensor loss, logits;
  ConstTensor labels, sums, row_weight = {};
  std::int64_t first = 0, vocab = 0;
  double smoothing = 0;
};
void cross_entropy_part(const CrossEntropyPart& problem, Stream& stream);

// Chooses a token for each row of logits, [rows, vocab] of the CPU's type or f32.  tokens: [rows]
// i32; choices: [rows] Choice, as bytes.  A choice is the next token's afterwards, and positions
// and lengths, [rows] i32 or empty, are one more.  A GPU also puts the token of place n into
// shown[row, n % 2], [rows, 2] i32 of pinned memory or empty, and where its choice is scored how
// likely it was likewise into scores, f64.  On the CPU Exit::bad_data where a GPU's token is -1.
struct Sample {
  Tensor tokens, choices, positions = {}, lengths = {}, shown = {}, scores = {};
  ConstTensor logits;
};
void sample(const Sample& problem, Stream& stream);

// y = a + b; y may be a or b.  On GPUs b may be of another type than y and a if one is f32.
void add(Tensor y, ConstTensor a, ConstTensor b, Stream& stream);
// y = x, of any type.  On GPUs y may be of another type of numbers: they are rounded to it.
void copy(Tensor y, ConstTensor x, Stream& stream);
// Equal bytes between host and device, either way, in the stream's order (device::copy).
void transfer(Tensor y, ConstTensor x, Stream& stream);
void scale(Tensor y, ConstTensor x, double factor, Stream& stream);  // y = factor x
// y = factor x in f64, where the device has the factor, [1] f64; x in f32 or f64.
void scale(Tensor y, ConstTensor x, ConstTensor factor, Stream& stream);
// y = x within bound on either side of 0, and dx = dy where it was; y may be x, and dx dy.
void clamp_forward(Tensor y, ConstTensor x, double bound, Stream& stream);
void clamp_backward(Tensor dx, ConstTensor dy, ConstTensor x, double bound, Stream& stream);
void set_zero(Tensor y, Stream& stream);
// x: [a, b, …] becomes y: [b, a, …], elements of two bytes or more.
void swap_axes(Tensor y, ConstTensor x, std::int64_t a, std::int64_t b, Stream& stream);
// A block of a wide matrix (kernels/row_block.h).  What is collected is of the sum_dtype.
void spread(Tensor wide, ConstTensor narrow, const RowBlock& block, double factor, Stream& stream);
void collect(Tensor narrow, ConstTensor wide, const RowBlock& block, double factor, Stream& stream);
// A matrix of four bits a number; packed: all bytes of its array (kernels/nf4.h).
void nf4_unpack(Tensor y, ConstTensor packed, Stream& stream);
// Rows of their own lengths (kernels/row_scale.h).  squares, factor and total are of the sum_dtype.
void row_squares(Tensor squares, ConstTensor x, Stream& stream);
void row_factors(Tensor factor, ConstTensor m, ConstTensor squares, const RowBlock& block,
                 Stream& stream);
void scale_rows(Tensor y, ConstTensor x, ConstTensor factor, Stream& stream);
void scale_columns(Tensor y, ConstTensor x, ConstTensor factor, Stream& stream);
void multiply(Tensor y, ConstTensor a, ConstTensor b, Stream& stream);
void add_over_norms(Tensor dm, ConstTensor total, ConstTensor squares, const RowBlock& block,
                    Stream& stream);
void column_sum(Tensor y, ConstTensor x, Stream& stream);  // y += sum over rows of x
void add_up(Tensor sum, ConstTensor x, Stream& stream);    // sum: [1], x: [n] f64, in order
// The sum of the squares of all parts' elements; sum: [1] f64.  before(i), if there is one, is
// called before parts[i] is read.
void sum_squares(Tensor sum, std::span<const ConstTensor> parts, Stream& stream,
                 const std::function<void(std::size_t)>& before = {});
void count_zeros(Tensor sum, std::span<const ConstTensor> parts, Stream& stream);
// For the host, which waits for a GPU; 0 on meta.
double sum_squares(std::span<const ConstTensor> parts, Stream& stream);
inline double sum_squares(ConstTensor x, Stream& stream) {
  return sum_squares(std::span(&x, 1), stream);
}
void dot(Tensor sum, ConstTensor a, ConstTensor b, Stream& stream);  // sum: [1] f64
void fill(Tensor y, double value, Stream& stream);
// Each run of y's elements gets what those of its global numbers do in the whole.
void fill_normal(Tensor y, double std, RandomKey key, std::span<const ElementRun> runs,
                 Stream& stream);
void fill_uniform(Tensor y, double bound, RandomKey key, std::span<const ElementRun> runs,
                  Stream& stream);
bool all_finite(ConstTensor x, Stream& stream);  // true on meta

// Completes the outcome and its records (kernels/update.h); on meta nothing.
void decide_update(std::span<StepRecord> records, StepOutcome* outcome, const UpdateRules& rules,
                   Stream& stream);
// What an optimizer keeps of what it updates; if it is of fp16 or fp8 also, [2, pieces] f32, each
// piece's scale and a zero.  On the CPU a chunk is a piece.
struct Kept {
  Tensor values, scales = {};
};
// An update of many parameters that lie in flat tensors (kernels/update.h).  chunks: UpdateChunks
// as bytes, on the tensors' device.  p: the values, of which a chunk's elements are first + i, or,
// with a `copy` of 16 bits (the values), their masters in f32 or, for Adam on a GPU, fp16, as the
// state by state + i.
struct FlatUpdate {
  Kept p;
  Tensor copy = {};
  ConstTensor g;              // first + gradient_shift + i
  ConstTensor chunks;         // empty on meta
  std::int64_t elements = 0;  // of all chunks
};
void adam(const FlatUpdate& update, const Kept& m, const Kept& v, const AdamOptions& options,
          const StepRecord* record, Stream& stream);
// After all updates of a step.
void take_scales(const Kept& kept, const StepRecord* record, Stream& stream);
void sgd(const FlatUpdate& update, Tensor b, double momentum, const StepRecord* record,
         Stream& stream);
void muon_momentum(Tensor u, Tensor m, ConstTensor g, double momentum, bool nesterov,
                   const StepRecord* record, Stream& stream);
void muon_apply(Tensor p, ConstTensor u, double factor, double lr_mult, double decay_mult,
                const StepRecord* record, Stream& stream);

}  // namespace mt
