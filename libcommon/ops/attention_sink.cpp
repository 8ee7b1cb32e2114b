#include "ops/attention_sink.h"

#include "ops/check.h"

namespace mt {

static void check(const char* operation, const ConstTensor& o, const ConstTensor& lse,
                  const ConstTensor& sink, const SinkShape& s) {
  const std::int64_t queries = s.rows() * s.heads;
  if (o.numel() != queries * s.head_dim || lse.numel() != queries)
    fail(Exit::internal, operation, ": o is ", o.shape(), ", lse ", lse.shape(), ", expected ",
         queries, " queries of ", s.head_dim, " channels");
  if (sink) check_shape(operation, "sink", sink, {s.heads});
}

void add_sink(Tensor o, Tensor lse, ConstTensor sink, const SinkShape& s, Stream& stream) {
  check("add_sink", o, lse, sink, s);
  dispatch(
      Family::attention, o, moves(o, o, lse, lse), stream,
      [&]<class T>() { cpu::add_sink(o.as<T>(), lse.as<T>(), or_null<T>(sink), s); },
      [&]<class T>() {
        cuda::add_sink(o.as<T>(), lse.as<float>(), or_null<T>(sink), s, stream.handle());
      });
}

void sink_backward(Tensor d_sink, ConstTensor d_o, ConstTensor o, ConstTensor lse, ConstTensor sink,
                   const SinkShape& s, Stream& stream) {
  check("sink_backward", o, lse, sink, s);
  check_shape("sink_backward", "d_sink", d_sink, {s.heads});
  dispatch(
      Family::attention, o, moves(d_o, o, lse), stream,
      [&]<class T>() {
        cpu::sink_backward(d_sink.as<T>(), d_o.as<T>(), o.as<T>(), lse.as<T>(), sink.as<T>(), s);
      },
      [&]<class T>() {
        with_gradient_type<T>(d_sink, [&]<class G>() {
          cuda::sink_backward(d_sink.as<G>(), d_o.as<T>(), o.as<T>(), lse.as<float>(), sink.as<T>(),
                              s, stream.handle());
        });
      });
}

}  // namespace mt
