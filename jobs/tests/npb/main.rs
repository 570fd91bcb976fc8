//! The benchmarks' numerics on threads of the host, verified as the jobs verify them on nodes.

#[path = "../../examples/npb/mod.rs"]
#[allow(dead_code)]
mod npb;

#[path = "../../examples/npb-ep"]
mod ep {
    use super::npb;

    pub mod class;
    pub mod deviates;
}

#[path = "../../examples/npb-cg"]
mod cg {
    use super::npb;

    pub mod class;
    pub mod matrix;
    pub mod solver;
}

#[path = "../../examples/npb-mg"]
mod mg {
    use super::npb;

    pub mod charges;
    pub mod class;
    pub mod cycle;
    pub mod grid;
    pub mod stencil;
}

#[path = "../../examples/npb-ft"]
mod ft {
    use super::npb;

    pub mod class;
    pub mod fourier;
    pub mod pencils;
    pub mod solver;
}

#[path = "../../examples/npb-is"]
mod is {
    use super::npb;

    pub mod class;
    pub mod ranker;
}

mod threads;

use npb::machine::{Grid, Machine};
use threads::on_tasks;

#[test]
fn g3_ep_class_s_verifies_on_any_number_of_tasks() {
    let class = ep::class::CLASSES.iter().find(|class| class.name == "S").unwrap();
    for tasks in [1, 2, 3, 4, 8] {
        let tallies = on_tasks(tasks, |machine| ep::deviates::tally(machine, class).unwrap());
        assert!(tallies.windows(2).all(|pair| pair[0] == pair[1]), "tasks differ: {tallies:?}");
        assert!(class.verifies(tallies[0].sums), "{tasks} tasks: {:?}", tallies[0]);
        assert_eq!(tallies[0].counts.iter().sum::<u64>(), 13_176_389);
    }
}

#[test]
fn g3_cg_class_s_verifies_on_any_number_of_tasks() {
    let class = cg::class::CLASSES.iter().find(|class| class.name == "S").unwrap();
    for tasks in [1, 2, 3, 4, 6, 8, 9, 16] {
        let steps = on_tasks(tasks, |machine| {
            let mut solver = cg::solver::Solver::new(machine, class).unwrap();
            solver.restart();
            (0..class.iterations).map(|_| solver.step(machine).unwrap()).last().unwrap()
        });
        assert!(steps.windows(2).all(|pair| pair[0] == pair[1]), "tasks differ: {steps:?}");
        assert!(class.verifies(steps[0].zeta), "{tasks} tasks: {:?}", steps[0]);
        assert!(steps[0].residual < 1e-12, "{tasks} tasks: {:?}", steps[0]);
    }
}

#[test]
fn g3_mg_class_s_verifies_on_powers_of_two() {
    let class = mg::class::CLASSES.iter().find(|class| class.name == "S").unwrap();
    assert!([3, 6, 1 << 13].iter().all(|&tasks| !mg::cycle::suits(class, tasks)));
    for tasks in [1, 2, 4, 8, 16, 32, 64] {
        assert!(mg::cycle::suits(class, tasks));
        let norms = on_tasks(tasks, |machine| {
            let mut solver = mg::cycle::Solver::new(machine, class).unwrap();
            solver.restart(machine).unwrap();
            for _ in 0..class.iterations {
                solver.cycle(machine).unwrap();
            }
            solver.norm(machine).unwrap()
        });
        assert!(norms.windows(2).all(|pair| pair[0] == pair[1]), "tasks differ: {norms:?}");
        assert!(class.verifies(norms[0]), "{tasks} tasks: {:?}", norms[0]);
    }
}

#[test]
fn g3_ft_class_s_verifies_every_step_on_pencils_and_slabs() {
    let class = ft::class::CLASSES.iter().find(|class| class.name == "S").unwrap();
    let unsuitable = [3, 12, 1 << 14].map(|tasks| Grid::square(0, tasks));
    assert!(unsuitable.iter().all(|grid| !ft::pencils::suits(class, grid)));
    for (rows, columns) in [(1, 1), (1, 2), (2, 1), (2, 2), (2, 4), (1, 8), (8, 1), (4, 4)] {
        let checksums = on_tasks(rows * columns, |machine| {
            let grid = Grid::with_rows(rows, Machine::task(machine), rows * columns);
            assert!(ft::pencils::suits(class, &grid));
            let mut solver = ft::solver::Solver::new(machine, class, grid).unwrap();
            solver.restart(machine).unwrap();
            [(); ft::class::STEPS].map(|()| solver.step(machine).unwrap())
        });
        assert!(checksums.windows(2).all(|pair| pair[0] == pair[1]), "tasks differ: {checksums:?}");
        for (step, &checksum) in checksums[0].iter().enumerate() {
            assert!(class.verifies(step, checksum), "{rows} x {columns}, step {step}: {checksum:?}");
        }
    }
}

#[test]
fn g3_is_class_s_verifies_every_iteration_and_sorts_on_any_number_of_tasks() {
    let class = is::class::CLASSES.iter().find(|class| class.name == "S").unwrap();
    for tasks in [1, 2, 3, 5, 8, 16, 33] {
        assert!(tasks <= is::ranker::TASKS);
        let sorted = on_tasks(tasks, |machine| {
            let mut ranker = is::ranker::Ranker::new(machine, class).unwrap();
            for iteration in 1..=is::class::ITERATIONS {
                let ranks = ranker.rank(machine, iteration).unwrap();
                assert!(class.verifies(iteration, ranks), "{tasks} tasks, iteration {iteration}: {ranks:?}");
            }
            ranker.sort(machine).unwrap()
        });
        assert!(sorted.iter().all(|&sorted| sorted), "{tasks} tasks: {sorted:?}");
    }
}
