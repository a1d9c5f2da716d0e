"""Schedules sweep by sweep: start and end of each stage, and the temperature."""

from dataclasses import replace

import numpy as np
import pytest
from tests.reference.alignment import BHMM_F

from hierogram.samplers.alignment.models.registry import options_for
from hierogram.samplers.grammar.schedules import EVERY_LEVEL, Annealing, Schedule, quick_schedule, stratified_schedule

SWEEPS = np.arange(1, 100)


def test_each_level_has_its_sweeps_before_every_node_is_sampled() -> None:
    schedule = Schedule(sweeps_per_level=3, levels=4)
    stages = schedule.stages(SWEEPS).tolist()
    assert stages[:13] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, EVERY_LEVEL]
    assert set(stages[12:]) == {EVERY_LEVEL}
    assert schedule.burn_in == 12


def test_the_paper_s_schedule_has_ten_sweeps_per_level() -> None:
    stages = Schedule().stages(SWEEPS)
    assert [int(np.count_nonzero(stages == level)) for level in range(1, 8)] == [10] * 7
    assert int(np.flatnonzero(stages == EVERY_LEVEL)[0]) + 1 == 71


def test_without_sweeps_by_level_every_node_is_sampled_from_the_start() -> None:
    schedule = Schedule(sweeps_per_level=0, levels=0)
    assert set(schedule.stages(SWEEPS).tolist()) == {EVERY_LEVEL}
    assert set(schedule.reached(SWEEPS).tolist()) == {1}
    assert (schedule.powers(SWEEPS) == 1.0).all()


def test_the_quick_schedule_raises_the_temperature_to_one() -> None:
    schedule = quick_schedule(burn_in_sweeps=9)
    temperatures = schedule.temperatures(np.arange(1, 23))
    assert temperatures[[0, 15, 21]].tolist() == pytest.approx([0.85, 1.0, 1.0])
    assert np.diff(temperatures)[:15].tolist() == pytest.approx([0.15 / 15] * 15)
    assert schedule.burn_in == 25


def test_the_stratified_schedule_adds_two_levels_per_sweep() -> None:
    schedule = stratified_schedule(burn_in_sweeps=9)
    stages = schedule.stages(SWEEPS).tolist()
    assert stages[:8] == [1, 3, 5, 7, 9, 11, 13, EVERY_LEVEL]
    assert set(stages[8:]) == {EVERY_LEVEL}
    assert schedule.temperatures(SWEEPS).tolist() == quick_schedule().temperatures(SWEEPS).tolist()
    assert schedule.temperatures(np.array([8]))[0] < 1.0
    assert schedule.burn_in == 25
    assert set(quick_schedule().stages(SWEEPS).tolist()) == {EVERY_LEVEL}


def test_schedules_with_rising_temperature_avoid_current_values() -> None:
    assert quick_schedule().avoid_current
    assert stratified_schedule().avoid_current
    assert not Schedule().avoid_current
    assert not Annealing().avoid_current


def test_annealing_is_followed_by_burn_in_sweeps() -> None:
    annealing = Annealing(sweeps=5, start=3.0, burn_in_sweeps=4)
    assert annealing.burn_in == 9
    assert annealing.powers(np.array([1, 3, 5, 6])).tolist() == pytest.approx([1 / 3, 1 / 2, 1, 1])
    assert set(annealing.stages(SWEEPS).tolist()) == {EVERY_LEVEL}


def test_the_stage_of_the_last_sweep_is_reported() -> None:
    schedule = Schedule(sweeps_per_level=2, levels=3)
    assert schedule.reached(np.arange(9)).tolist() == [1, 1, 1, 2, 2, 3, 3, 4, 4]


def test_the_annealing_temperature_falls_in_even_steps_to_one() -> None:
    annealing = Annealing(sweeps=5, start=3.0)
    temperatures = annealing.temperatures(np.arange(1, 9)).tolist()
    assert temperatures == pytest.approx([3.0, 2.5, 2.0, 1.5, 1.0, 1.0, 1.0, 1.0])
    assert temperatures[4] == 1.0
    assert annealing.reached(np.arange(4, 8)).tolist() == [1, 1, 2, 2]


def test_annealing_in_one_sweep_uses_the_start_temperature() -> None:
    assert Annealing(sweeps=1, start=4.0).temperatures(np.arange(1, 4)).tolist() == [4.0, 1.0, 1.0]


def test_without_annealing_the_temperature_is_one_from_the_first_sweep() -> None:
    assert Annealing(sweeps=0, start=4.0).temperatures(np.arange(1, 4)).tolist() == [1.0, 1.0, 1.0]


def test_aligner_warmup_has_two_stages_of_equal_length() -> None:
    options = replace(options_for(BHMM_F, 1000), warming=3)
    assert [options.plan(sweep).stage for sweep in range(1, 10)] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert [replace(options, warming=0).plan(sweep).stage for sweep in (1, 2)] == [3, 3]
