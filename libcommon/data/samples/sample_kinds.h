// The kinds of samples that the token files of a run are cut into.
#pragma once

#include <memory>
#include <vector>

#include "data/files/indexed_dataset.h"
#include "data/samples/gpt_dataset.h"
#include "data/samples/masking.h"
#include "data/samples/sample_options.h"
#include "data/samples/sample_sets.h"

namespace mt {

using TokenFiles = std::vector<std::unique_ptr<IndexedDataset>>;

// Each kind makes samples as its options say, of the parts that it is asked for.  Files and pieces
// must outlive it.
std::unique_ptr<SampleKind> gpt_samples(std::vector<const TokenSequences*> files,
                                        const GptDatasetOptions& options);
// BERT's or T5's.
std::unique_ptr<SampleKind> masked_samples(SampleType type, const TokenFiles& files,
                                           const WordPieces& pieces, std::int64_t seq_length,
                                           const MaskOptions& masks, std::uint32_t seed);

// Throws Exit::bad_data where no document of a file has more than one sequence, as in one that was
// not made of sentences.
void check_sentences(const IndexedDataset& file);

}  // namespace mt
