//! The recognition tests of every scheduler, each beside its scheduler. A new scheduler adds its line; this file also tells the
//! build of the catalogue that there is a new folder.

#[path = "bfs/tests.rs"]
mod bfs;
#[path = "bmqs/tests.rs"]
mod bmqs;
#[path = "bsd4/tests.rs"]
mod bsd4;
#[path = "carousel/tests.rs"]
mod carousel;
#[path = "cfs/tests.rs"]
mod cfs;
#[path = "dwrr/tests.rs"]
mod dwrr;
#[path = "ebs/tests.rs"]
mod ebs;
#[path = "eevdf/tests.rs"]
mod eevdf;
#[path = "fbfs/tests.rs"]
mod fbfs;
#[path = "groups.rs"]
mod groups;
#[path = "linux12/tests.rs"]
mod linux12;
#[path = "linux22/tests.rs"]
mod linux22;
#[path = "linux24/tests.rs"]
mod linux24;
#[path = "o1/tests.rs"]
mod o1;
#[path = "quotas.rs"]
mod quotas;
#[path = "ule/tests.rs"]
mod ule;
