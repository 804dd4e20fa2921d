//! Results as data: the parts of a run, and its outcome. Producers fill in these types, `report` formats them.

mod advice;
mod comparison;
mod condition;
mod confirmation;
mod decision;
mod difference;
mod evidence;
mod failure;
mod fault;
pub mod format;
mod measure;
mod measured;
mod moment;
mod overall;
mod quantity;
mod ranking;
mod reproduction;
mod requirement;
mod run;
mod shared;
mod summary;
mod surroundings;
mod waits;

pub use advice::{Advice, Distance, LeftToOthers, Price, Rank, Recommendation, Setting, Values};
pub use comparison::Comparison;
pub use condition::{Condition, Gate, GateOutcome, Limit, sentence};
pub use confirmation::{Confirmation, Fate, Trial};
pub use decision::Decision;
pub use difference::{Difference, STATUS, between, compared, differences, is_called, titled};
pub use evidence::{AllEvidence, Evidence, Reason};
pub use failure::{DUE, Failure, LEFT_BEHIND, Patience, Starvation, Status};
pub use fault::{Checkup, Fault, LeftOut};
pub use format::Unit;
pub use measure::{
    Better, Episode, Group, MAKESPAN, MAKESPAN_ERROR, MEASURES, Margin, Measure, OTHERS_SERVED,
    Shown, documented,
};
pub use measured::{Figures, Measured};
pub use moment::{Mark, Moment};
pub use overall::{CellName, Compared, Overall, Overview, Tally};
pub use quantity::{Lack, Quantity};
pub use ranking::{Absent, Dominated, NOTABLE, Noted, OwnMargin, Ranked, Ranking};
pub use reproduction::{
    Claim, Figure, Fit, Headline, Interval, Level, OnKernel, PrintedTable, Reproduction, Standing,
    Subject, Verdict, Where,
};
pub use requirement::{Breach, Requirement};
pub use run::{CpuChange, Hashes, Labels, Recipe, Run, TaskShare, are_one, short_name};
pub use shared::Shared;
pub use summary::{Judgement, Summary, judge, median, runs_needed};
pub use surroundings::{Creator, OtherThread, Turn};
pub use waits::Waits;
