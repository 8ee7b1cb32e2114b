// What layers that multiply eight bits remember (Fp8Layers::memories), in a checkpoint's common
// part:
//   fp8: name of a weight: {scale: [of x, W, dy], amax_history: [[of x, the newest first], ...]}
#pragma once

#include <string>

#include "ckpt/pickle.h"
#include "comm/world.h"
#include "nn/fp8_layers.h"

namespace mt {

class Log;

// Called on every rank, each of which has some of the layers; whole on rank 0.
PyValue make_fp8(const Fp8Layers& fp8, const World& world, Stream& stream);

// A layer that the checkpoint lacks begins anew, which is logged on rank 0; from a history of
// another length what there is of the newest is taken.  where: begins errors, Exit::bad_data.
void load_fp8(Fp8Layers& fp8, const PyValue& common, const std::string& where, const World& world,
              Stream& stream, const Log& log);

}  // namespace mt
