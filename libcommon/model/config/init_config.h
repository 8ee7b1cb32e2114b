// InitConfig: the initial weights, and what training alone does to them: dropout, smoothed labels
// and noise on embeddings.  A run may go on with others than its checkpoint's.
#pragma once

namespace mt {

struct InitConfig {
  double attention_dropout = 0.1, hidden_dropout = 0.1;
  double label_smoothing = 0;
  double neftune_alpha = 0;  // of a model that learns texts; no checkpoint has it
  double init_method_std = 0.02;
  bool init_method_xavier_uniform = false;
};

}  // namespace mt
