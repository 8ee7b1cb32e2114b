// A Llama as Meta publishes it, as a ModelSource: params.json, and consolidated.NN.pth, a state
// dict of torch.save for each of the ranks that shared every matrix:
//   attention.wq wk wv, feed_forward.w1 w3, output   rows
//   attention.wo, feed_forward.w2                    columns
//   tok_embeddings                                   columns, of Llama 3 rows
// Norms are the same on all.  Rotary positions turn neighbouring rows of a head of wq and wk
// together, not row j of its first half and row j of its second: of hn rows, Hugging Face's and
// ours are 0, 2, …, hn - 2, 1, 3, …, hn - 1 of these.
#pragma once

#include <string>

#include "model/hugging_face_source.h"

namespace mt {

inline constexpr const char* kMetaFormat = "meta";

class MetaSource : public HuggingFaceSource {
 public:
  MetaSource(const std::string& folder, const ModelSourceOptions& options);
};

}  // namespace mt
