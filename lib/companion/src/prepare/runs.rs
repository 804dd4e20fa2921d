//! Programs that the loader loads or runs.

use fairground_bpf::{Passed, ProgramRun, RunTime, TypeId, TypeKind};
use rhai::INT;
use toml::Spanned;

use super::{Absent, Preparation, in_order, wrong};
use crate::encode;
use crate::error::Error;
use crate::file::{self, Values, When};

impl Preparation<'_> {
    pub(super) fn add_runs(&mut self, run: &file::Run) -> Result<Result<(), Absent>, Error> {
        let context_type = match self.context_type(run.program.get_ref()) {
            Ok(found) => found,
            Err(absent) => return Ok(Err(absent)),
        };
        for then in &run.then {
            if let Err(absent) = self.context_type(then.program.get_ref()) {
                return Ok(Err(absent));
            }
        }
        let time = match &run.every {
            Some(every) => {
                let interval = self.whole(every, "run.every")?;
                let interval = u64::try_from(interval).ok().filter(|time| *time >= 1_000);
                RunTime::Every(interval.ok_or_else(|| {
                    wrong(
                        &self.companion.place(every),
                        "run.every: the time from one run to the next, such as \"100*ms\""
                            .to_owned(),
                    )
                })?)
            }
            None if run.when == When::AfterAttach => RunTime::AfterAttach,
            None => RunTime::BeforeAttach,
        };
        for element in self.elements(run.each.as_ref(), "run")? {
            let level = self.scope.len();
            if let Some(element) = element {
                self.scope.push_constant_dynamic("it", element);
            }
            if self.holds(run.condition.as_ref(), "run")? {
                let cpu = match &run.cpu {
                    Some(cpu) => usize::try_from(self.whole(cpu, "run.cpu")?).ok(),
                    None => self.online.ids.first().copied(),
                };
                let ids = &self.online.ids;
                let cpu = cpu.filter(|cpu| ids.binary_search(cpu).is_ok());
                let cpu = cpu.ok_or_else(|| {
                    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
                    wrong(
                        &self.companion.place(&run.program),
                        format!("run.cpu: the CPUs that are online are {}", ids.join(", ")),
                    )
                })?;
                self.add_run(
                    &run.program,
                    context_type,
                    (&run.context, &[], &run.write),
                    (cpu, time),
                    None,
                )?;
                let mut before = context_type;
                for then in &run.then {
                    let of_then = self.context_type(then.program.get_ref()).ok().flatten();
                    let parts = (&then.context, then.pass.as_slice(), &then.write);
                    self.add_run(&then.program, of_then, parts, (cpu, time), Some(before))?;
                    before = of_then;
                }
            }
            self.scope.rewind(level);
        }
        Ok(Ok(()))
    }

    pub(super) fn add_run(
        &mut self,
        program: &Spanned<String>,
        context_type: Option<TypeId>,
        (context, pass, write): (&Values, &[Spanned<String>], &Values),
        (cpu, time): (usize, RunTime),
        before: Option<Option<TypeId>>,
    ) -> Result<(), Error> {
        let place = self.companion.place(program);
        let btf = self.object.btf();
        let size = context_type.and_then(|id| btf.size_of(id)).unwrap_or(0);
        self.take(size as usize, &place)?;
        let mut bytes = vec![0; size as usize];
        let name = program.get_ref();
        let spot_of = |type_id: Option<TypeId>, member: &str, place: &str| {
            let type_id = type_id.ok_or_else(|| {
                wrong(
                    place,
                    format!("{name} takes no context of its own type; leave {member:?} out"),
                )
            })?;
            encode::follow(btf, type_id, &format!(".{member}"))
                .map_err(|problem| wrong(place, format!("context of {name}: {problem}")))
        };
        for (member, value) in in_order(context) {
            let place = self.companion.place(member);
            let spot = spot_of(context_type, member.get_ref(), &place)?;
            let value = self.value(value, &format!("context.{}", member.get_ref()))?;
            encode::write(btf, spot, &value, &mut bytes).map_err(|problem| {
                wrong(&place, format!("context.{}: {problem}", member.get_ref()))
            })?;
        }
        let mut passed = Vec::new();
        for member in pass {
            let place = self.companion.place(member);
            let (from, to) = (
                spot_of(before.flatten(), member.get_ref(), &place)?,
                spot_of(context_type, member.get_ref(), &place)?,
            );
            passed.push(Passed {
                from: from.offset(),
                to: to.offset(),
                size: btf.size_of(to.type_id).unwrap_or(0) as usize,
            });
        }
        let mut writes = Vec::new();
        for (member, value) in in_order(write) {
            let place = self.companion.place(member);
            let spot = spot_of(context_type, member.get_ref(), &place)?;
            let words = self.value(value, &format!("write.{}", member.get_ref()))?;
            let words = words.into_typed_array::<INT>().map_err(|_| {
                wrong(
                    &place,
                    "write: a list of 64-bit words is needed, such as mask(it.cpus)".to_owned(),
                )
            })?;
            let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            writes.push((spot.offset(), bytes));
        }
        self.done.setup.runs.push(ProgramRun {
            place,
            program: name.clone(),
            context: bytes,
            passed,
            writes,
            cpu,
            time,
            follows: before.is_some(),
        });
        Ok(())
    }

    /// Checks that the object has a program that the loader may load or leave out: see [`Companion::choose_programs`](crate::Companion::choose_programs).
    pub(super) fn has_free_program(&self, program: &str) -> Result<(), Absent> {
        let programs = self.object.programs().iter();
        let free: Vec<&str> =
            programs.filter(|one| !one.is_callback()).map(|one| one.name.as_str()).collect();
        if !free.contains(&program) {
            return Err(Absent(format!(
                "there is no program {program:?} that can be loaded or left out; there are: {}",
                listed(&free)
            )));
        }
        Ok(())
    }

    /// The type of a program's context: the type to which its only parameter points.
    pub(super) fn context_type(&self, program: &str) -> Result<Option<TypeId>, Absent> {
        let programs = self.object.programs();
        let Some(found) = programs.iter().find(|one| one.name == program) else {
            let runnable = programs.iter().filter(|one| one.section == "syscall");
            let names: Vec<&str> = runnable.map(|one| one.name.as_str()).collect();
            return Err(Absent(format!(
                "there is no program {program:?}; those that can be run are: {}",
                listed(&names)
            )));
        };
        if found.section != "syscall" {
            return Err(Absent(format!(
                "program {program:?} is of section {:?}, and only those of section \"syscall\" can be run",
                found.section
            )));
        }
        let btf = self.object.btf();
        let prototype = btf.types().iter().find_map(|one| match one.kind {
            TypeKind::Function { prototype, .. } if one.name == program => Some(prototype),
            _ => None,
        });
        let Some(TypeKind::Prototype { parameters, .. }) = prototype.map(|id| btf.resolved(id))
        else {
            return Ok(None);
        };
        let Some((_, parameter)) = parameters.first() else { return Ok(None) };
        Ok(match *btf.resolved(*parameter) {
            TypeKind::Pointer(target) => Some(target).filter(|id| btf.size_of(*id).is_some()),
            _ => None,
        })
    }
}

/// Names for a message.
fn listed(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}
