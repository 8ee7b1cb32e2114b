#include "data/samples/sample_options.h"

#include "base/command.h"

namespace mt {

SampleType sample_type(const std::string& name) {
  return name == "bert" ? SampleType::bert : name == "t5" ? SampleType::t5 : SampleType::gpt;
}

void MaskOptions::add_to(CommandLine& cl) {
  cl.option("--decoder-seq-length", &decoder_seq_length, "N", "t5: tokens of what is decoded",
            between(2, kMostTokens));
  cl.option("--mask-prob", &mask_prob, "P", "bert, t5: part of the tokens that is masked",
            {.low = 0, .high = 1, .above_low = true});
  cl.option("--short-seq-prob", &short_seq_prob, "P",
            "bert, t5: part of the samples that is shorter", between(0, 1));
  cl.off_switch("--bert-no-binary-head", &binary_head,
                "bert: samples of one run of sentences, not of two to be put in order");
  cl.flag("--pack-sequences", &pack_sequences,
          "bert: rows of --seq-length tokens hold up to 8 samples, which do not see each other; a "
          "row counts as one sample");
}

void MaskOptions::check(SampleType type, const std::string& type_option) const {
  const bool bert = type == SampleType::bert, t5 = type == SampleType::t5;
  const MaskOptions defaults;
  struct Rule {
    bool says, fits;
    const char* name;
  };
  for (const Rule& rule :
       {Rule{decoder_seq_length.has_value(), t5, "--decoder-seq-length"},
        Rule{mask_prob != defaults.mask_prob, bert || t5, "--mask-prob"},
        Rule{short_seq_prob != defaults.short_seq_prob, bert || t5, "--short-seq-prob"},
        Rule{!binary_head, bert, "--bert-no-binary-head"},
        Rule{pack_sequences, bert, "--pack-sequences"}})
    if (rule.says && !rule.fits) fail(Exit::usage, rule.name, ": has no effect with ", type_option);
  if (t5 && !decoder_seq_length) fail(Exit::usage, "--decoder-seq-length: required");
}

}  // namespace mt
