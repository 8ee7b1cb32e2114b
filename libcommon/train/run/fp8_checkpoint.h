// What layers that multiply eight bits remember (Fp8Layers::memories), in a checkpoint: as
// Transformer Engine's modules of their weights would have it there (ckpt/te_state.h).
#pragma once

#include <functional>
#include <map>
#include <string>

#include "comm/world.h"
#include "nn/fp8_layers.h"

namespace mt {

class Log;

// By their keys (model/keys.h), with all rows of the model.  Called on every rank, each of which
// has some of the layers.
std::map<std::string, std::string> fp8_states(const Fp8Layers& fp8, const ParamTable& whole,
                                              const World& world, Stream& stream);

// `stored` has what the checkpoint says of a weight's module.  A layer of which that is nothing
// begins anew; from a history of another length what there is of the newest is taken.  Rank 0 logs
// one layer that begins anew, and one whose history has overflowed, whichever ranks have them; so
// every rank calls it.  where: begins errors, Exit::bad_data.
void load_fp8(Fp8Layers& fp8, const ParamTable& table,
              const std::function<std::string(const Param&)>& stored, const std::string& where,
              const World& world, Stream& stream, const Log& log);

}  // namespace mt
