// Metadatasets: files of YAML by which Megatron-Energon blends its folders, which stand beside
// them:
//   __module__: megatron.energon
//   __class__: MetadatasetV2                    or Metadataset, whose lists are called datasets
//   splits:
//     train:
//       blend:                                  samples come by these weights, or
//       - {weight: 2, path: a, split_part: train}
//       blend_epochized:                        so many times in an epoch
//       - {repetitions: 1.5, path: b}
//     val: {path: a}
// A path may be another of them.  `subflavors`, which programs in Python look at, and
// `shuffle_over_epochs_multiplier` change no sample and are passed over; what else there is, joins
// and subsets say, is refused by name.
#pragma once

#include <string>
#include <vector>

namespace mt {

// EnergonSource: a part of an Energon folder, "train" say, and how often an epoch has its samples;
// of a fraction it has the first.
struct EnergonSource {
  std::string folder, part;
  double repetitions = 1;
};

// Whether it is an Energon folder or a file whose name is that of YAML.
bool names_energon(const std::string& path);

// What an epoch of a folder's part, or of a Metadataset's, has.  By weights the samples that come
// least often come once, and others as much more often as their weights say.  Only "train" is
// blended: of other parts each folder counts once.  Throws Exit::bad_data for what makes no sense,
// Exit::bad_config for what is refused.
std::vector<EnergonSource> energon_sources(const std::string& path, const std::string& part);

// Whether there is such a part.
bool has_energon_part(const std::string& path, const std::string& part);

}  // namespace mt
