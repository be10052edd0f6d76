#include "llmtrain/train/pipeline_runner.hpp"

#include <algorithm>

namespace llmtrain {

namespace {

constexpr int kActivationTag = 0, kGradientTag = 1;

}  // namespace

PipelineRunner::PipelineRunner(Context& ctx, Communicator& pipeline, Transformer& model,
                               const PipelineSettings& settings, index_t slot_bytes)
    : ctx_(ctx), pipeline_(pipeline), model_(model), settings_(settings) {
  actions_ = pipeline_actions(settings.schedule,
                              {pipeline.size(), settings.chunks, settings.micro_batches},
                              pipeline.rank());
  const int slots = std::max(1, most_in_flight(actions_));
  for (int i = 0; i < slots; ++i) {
    slots_.push_back({.arena = Arena(ctx.device, slot_bytes, MemoryUse::activations)});
  }
  // One is sent while the next is computed.
  const index_t bytes = settings.sequences * settings.seq_len * model.config().width *
                        size_bytes(model.dtype());
  for (int i = 0; i < (pipeline.size() > 1 ? 2 : 1); ++i) {
    gradients_.push_back({ctx.device.allocate(bytes, MemoryUse::activations), {}});
  }
}

index_t PipelineRunner::slot_high_water() const {
  index_t most = 0;
  for (const Slot& slot : slots_) most = std::max(most, slot.arena.high_water());
  return most;
}

void PipelineRunner::finish(std::vector<Communicator::Ticket>& sends) {
  for (const Communicator::Ticket ticket : sends) pipeline_.finish_send(ticket);
  sends.clear();
}

PipelineRunner::Slot& PipelineRunner::take_slot(int chunk, int micro_batch) {
  const auto slot = std::ranges::find(slots_, -1, &Slot::micro_batch);
  require(slot != slots_.end(), "more micro-batches in flight than the schedule said");
  finish(slot->sends);
  slot->arena.release(0);
  slot->chunk = chunk;
  slot->micro_batch = micro_batch;
  return *slot;
}

PipelineRunner::Slot& PipelineRunner::slot_of(int chunk, int micro_batch) {
  const auto slot = std::ranges::find_if(slots_, [&](const Slot& s) {
    return s.chunk == chunk && s.micro_batch == micro_batch;
  });
  require(slot != slots_.end(), "micro-batch ", micro_batch, " is not in flight");
  return *slot;
}

void PipelineRunner::free_slot(Slot& slot) { slot.chunk = slot.micro_batch = -1; }

// What stands between two parts.
Shape PipelineRunner::activation_shape(const ModelInput& input) const {
  return {input.tokens.count(), model_.config().width};
}

void PipelineRunner::receive_input(Slot& slot, const ModelInput& input, int from) {
  slot.input = slot.arena.allocate(activation_shape(input), model_.dtype());
  pipeline_.receive(slot.input, from, kActivationTag);
}

TensorView PipelineRunner::next_gradient(const ModelInput& input) {
  gradient_ = (gradient_ + 1) % gradients_.size();
  finish(gradients_[gradient_].sends);
  const Shape shape = activation_shape(input);
  return gradients_[gradient_]
      .buffer.view(model_.dtype())
      .flat(0, shape.count())
      .as(shape);
}

double PipelineRunner::forward_backward(Units& units, std::span<const ModelInput> inputs,
                                        float scale) {
  require(static_cast<int>(inputs.size()) == settings_.micro_batches, "", inputs.size(),
          " micro-batches, not ", settings_.micro_batches);
  const auto input_of = [&](const Action& action) -> const ModelInput& {
    return inputs[static_cast<std::size_t>(action.micro_batch)];
  };
  std::vector<int> backward_left(static_cast<std::size_t>(settings_.chunks),
                                 settings_.micro_batches);
  double sum = 0;
  TensorView dx;
  for (const Action& action : actions_) {
    const ModelInput& input = input_of(action);
    const int chunk = action.chunk, m = action.micro_batch;
    switch (action.kind) {
      case Action::Kind::receive_activation:
        receive_input(take_slot(chunk, m), input, action.peer);
        break;
      case Action::Kind::forward: {
        const bool received = pipeline_.size() > 1 && !model_.part(chunk).embedding;
        Slot& slot = received ? slot_of(chunk, m) : take_slot(chunk, m);
        Context ctx = context(slot);
        model_.forward(ctx, units, chunk, input, slot.input, Transformer::Mode::train,
                       slot.state);
        break;
      }
      case Action::Kind::send_activation: {
        Slot& slot = slot_of(chunk, m);
        slot.sends.push_back(
            pipeline_.send(slot.state.output, action.peer, kActivationTag));
        break;
      }
      case Action::Kind::receive_gradient:
        dx = next_gradient(input);
        pipeline_.receive(dx, action.peer, kGradientTag);
        break;
      case Action::Kind::backward: {
        if (model_.part(chunk).head) dx = next_gradient(input);
        const bool last = --backward_left[static_cast<std::size_t>(chunk)] == 0;
        units.begin_micro_batch(last ? Units::MicroBatch::last
                                     : Units::MicroBatch::more_follow);
        Slot& slot = slot_of(chunk, m);
        Context ctx = context(slot);
        sum += model_.backward(ctx, units, chunk, input, dx, scale, slot.state);
        free_slot(slot);
        break;
      }
      case Action::Kind::send_gradient:
        gradients_[gradient_].sends.push_back(
            pipeline_.send(dx, action.peer, kGradientTag));
        break;
    }
  }
  for (Slot& slot : slots_) finish(slot.sends);
  for (GradientBuffer& gradient : gradients_) finish(gradient.sends);
  units.finish_step();
  return sum;
}

PipelineRunner::Slot& PipelineRunner::forward_only(Units& units,
                                                   const ModelInput& input) {
  const int stages = pipeline_.size(), stage = pipeline_.rank();
  Slot* slot = nullptr;
  for (int chunk = 0; chunk < settings_.chunks; ++chunk) {
    if (slot != nullptr) {
      finish(slot->sends);
      free_slot(*slot);
    }
    slot = &take_slot(chunk, 0);
    const ModelPart& part = model_.part(chunk);
    if (!part.embedding) receive_input(*slot, input, (stage + stages - 1) % stages);
    Context ctx = context(*slot);
    model_.forward(ctx, units, chunk, input, slot->input, Transformer::Mode::evaluate,
                   slot->state);
    if (part.head) continue;
    slot->sends.push_back(
        pipeline_.send(slot->state.output, (stage + 1) % stages, kActivationTag));
  }
  return *slot;
}

double PipelineRunner::evaluate(Units& units, const ModelInput& input) {
  Slot& slot = forward_only(units, input);
  Context ctx = context(slot);
  const double sum = is_last() ? model_.loss(ctx, units, input, slot.state) : 0.0;
  finish(slot.sends);
  free_slot(slot);
  return sum;
}

void PipelineRunner::last_logits(Units& units, const ModelInput& input, TensorView out) {
  Slot& slot = forward_only(units, input);
  Context ctx = context(slot);
  if (is_last()) model_.last_logits(ctx, units, input, out, slot.state);
  finish(slot.sends);
  free_slot(slot);
}

}  // namespace llmtrain
