//! Analyses of functions that stay valid from pass to pass.

use std::rc::Rc;

use antares_ir::{Cfg, Function, Module};

/// Analyses of a module's functions, computed on demand and cached until a pass invalidates them.
#[derive(Debug, Default)]
pub struct Analyses {
    /// By function.
    cfgs: Vec<Option<Rc<Cfg>>>,
}

impl Analyses {
    pub(crate) fn cfg(&mut self, function: &Function) -> Rc<Cfg> {
        let index = function.id.0 as usize;
        if self.cfgs.len() <= index {
            self.cfgs.resize(index + 1, None);
        }
        self.cfgs[index].get_or_insert_with(|| Rc::new(Cfg::of(&function.blocks))).clone()
    }

    pub(crate) fn forget_flow(&mut self) {
        self.cfgs.clear();
    }

    /// Whether all cached analyses match `module`.
    pub(crate) fn are_of(&self, module: &Module) -> bool {
        let mut known = module.functions.iter().zip(&self.cfgs);
        known.all(|(function, cfg)| cfg.as_ref().is_none_or(|cfg| **cfg == Cfg::of(&function.blocks)))
    }
}
