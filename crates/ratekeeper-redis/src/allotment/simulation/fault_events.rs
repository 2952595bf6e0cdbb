//! What a fault does to the world of the simulation, and by how much it may exceed the bounds.

use ratekeeper_core::{Span, Verb};

use super::{faults::Fault, scenario::with_quota, store_node::StoreNode, world::HotKeyWorld};

impl HotKeyWorld {
    pub(super) fn fault(&mut self, fault: Fault) {
        let (now, store_now, keys) = (self.now, self.store_time(), self.keys());
        match fault {
            Fault::Crash { process, down } => {
                self.restart(process);
                self.processes[process].down_until = now + down;
            }
            Fault::Restart { process } => {
                for key in 0..keys {
                    self.call(process, key, true);
                }
                self.restart(process);
            }
            Fault::Pause { process, span } => {
                let until = &mut self.processes[process].paused_until;
                *until = (*until).max(now + span);
            }
            Fault::Distrust { process } => {
                let local = self.processes[process].local(now);
                self.processes[process].sides.iter().for_each(|side| side.lock(local).holder.forget());
            }
            Fault::Stall { span } => self.stalled_until = now + span,
            Fault::Snapshot => self.snapshot = Some(self.store.clone()),
            Fault::Failover { keeps_copy } => {
                let empty = StoreNode::new(&self.store.policies, self.scenario.mutant);
                self.store = self.snapshot.take().filter(|_| keeps_copy).unwrap_or(empty);
                self.epoch += 1;
                self.records.iter_mut().for_each(|records| records.lose_state(now));
            }
            Fault::Step { by } => {
                self.steps += by;
                self.records.iter_mut().for_each(|records| records.step_clock(by, now));
            }
            Fault::Penalize { key, permits } => {
                self.store.verb(key, permits, &Verb::Penalize, store_now);
                self.records[key].may_start_elsewhere();
            }
            Fault::Block { key, span } => {
                self.blocks[key] = (now, now + span);
                self.store.verb(key, 0, &Verb::Block { span: Span::from_micros(span) }, store_now);
            }
            Fault::Reset { key } => {
                self.blocks[key] = (0, 0);
                let (used, held) = (self.store.used(key, store_now), self.store.held(key));
                self.store.verb(key, 0, &Verb::Reset, store_now);
                self.records[key].reset(&used, held, now);
            }
            Fault::QuotaChange { key, how, percent } => {
                let policy = with_quota(&self.store.policies[key], percent);
                let held = self.store.held(key);
                self.store.change_quota(key, policy.clone(), how, store_now);
                self.records[key].change_quota(&policy, how, held, now);
                self.snapshot = None;
                // Some processes continue with another configuration.
                let hold = self.scenario.config.hold.as_micros();
                for process in &mut self.processes {
                    let hold = self.random.pick(&[hold / 3, hold, 2 * hold]);
                    process.sides[key].config.hold = Span::from_micros(hold);
                }
            }
        }
    }

    fn restart(&mut self, process: usize) {
        if let Err(failure) = self.processes[process].check() {
            self.failure.get_or_insert(failure);
        }
        let (keys, config, now) = (self.keys(), self.scenario.config_of(process), self.now);
        self.processes[process].restart(&mut self.random, keys, config, now);
    }
}
