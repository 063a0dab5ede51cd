"""What the window promises its users, and the tests that would fail without it.

Forty promises, from a review of the window in all its states. A promise whose tests were renamed or removed is named.
"""

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
PROMISES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("1 The lists of boxes show all rows and whole texts", (
        "window/test_dock_layout.py::test_widgets_have_names_of_their_own_and_targets_and_lists_are_large_enough",)),
    ("2 A click on a label freezes no layout", (
        "window/test_dock_layout.py::test_click_on_label_leaves_shares_and_a_moved_border_is_kept",)),
    ("3 Models are headings; heat, power and who uses a device are always there", (
        "window/test_device_list.py::test_gpus_of_one_model_are_below_its_heading_in_the_order_of_the_driver",
        "window/test_device_list.py::test_row_tells_heat_power_and_why_it_is_slowed_down")),
    ("4 A device that is slowed down by heat is seen in its row, as an event, a message and in plots", (
        "window/test_device_list.py::test_hot_gpu_has_a_red_sign_and_limits_give_way_to_names",
        "unit/test_timeline.py::test_slow_device_has_its_beginning_and_its_end",
        "window/test_panels.py::test_slow_device_and_unusable_spec_are_in_the_strip_and_a_failure_in_its_card",
        "window/test_plot_devices.py::test_slowdown_is_marked_on_its_strip",
        "window/test_plot_devices.py::test_temperature_power_and_clock_are_created_when_they_are_first_shown")),
    ("5 The loss is drawn by step; time is that of the training", (
        "window/test_plots.py::test_every_plot_has_a_name_and_loss_starts_by_step_and_devices_over_time",
        "window/test_plot_loss.py::test_pause_is_cut_out_of_the_time_of_training_and_marked")),
    ("6 The smoothed line is not late, and says what it is", (
        "window/test_plot_loss.py::test_mean_follows_the_loss_and_is_called_mean",
        "window/test_plot_loss.py::test_smoothing_is_set_with_a_slider_beside_which_a_narrow_plot_has_its_boxes")),
    ("7 One value does not ruin the scale; NaN and infinity have a cross", (
        "window/test_plot_loss.py::test_range_holds_all_but_values_far_away_which_have_arrows",
        "window/test_plot_loss.py::test_cross_marks_where_the_loss_became_nan_or_infinite")),
    ("8 The values under the mouse are never cut", (
        "window/test_plot_devices.py::test_hover_of_ten_devices_is_whole_and_in_the_order_of_the_list",)),
    ("9 Colour-blind people can tell the devices apart", (
        "window/test_theme.py::test_device_colours_can_be_told_apart",
        "window/test_plot_devices.py::test_each_line_is_labelled_at_its_end_without_overlap")),
    ("10 Many devices, and hours, are strips with a mean", (
        "window/test_plot_devices.py::test_more_than_four_devices_or_hours_are_drawn_as_strips",
        "window/test_plot_devices.py::test_more_than_four_devices_or_hours_are_drawn_as_strips",
        "window/test_plot_devices.py::test_mean_counts_the_training_only_beside_a_strip_and_in_the_head",
        "window/test_plot_devices.py::test_lines_are_one_click_away_and_remembered")),
    ("11 The tab Events has what happened", (
        "window/test_event_list.py::test_rows_have_time_text_sign_and_a_heading_for_another_day",
        "unit/test_timeline.py::test_start_has_devices_processes_python_and_the_time_of_its_parts",
        "unit/test_timeline.py::test_each_epoch_has_its_loss_and_its_validation",
        "unit/test_timeline.py::test_warnings_and_the_end_of_the_run")),
    ("12 A run that starts or resumes says what it does, with seconds", (
        "unit/test_run_header.py::test_header_of_a_starting_run_says_what_it_does",
        "unit/test_run_header.py::test_resumed_run_keeps_its_bar_and_says_from_where_it_goes_on")),
    ("13 A long run is drawn coarsely at once, then whole, and the second time at once", (
        "window/test_long_run.py::test_long_run_is_drawn_coarsely_and_then_whole",
        "window/test_long_run.py::test_run_left_while_it_is_read_is_read_anew_and_then_not_again")),
    ("14 Runs are compared", (
        "window/test_comparison.py::test_runs_that_differ_in_their_seed_are_a_group_until_each_is_to_be_drawn_alone",)),
    ("15 A run waits for busy devices", (
        "window/test_queue.py::test_busy_device_offers_the_queue_and_the_run_starts_when_it_is_free",)),
    ("16 A run has one loss in every place", (
        "unit/test_run_loss.py::test_list_and_series_name_the_best_validation",
        "unit/test_run_loss.py::test_without_validation_it_is_the_mean_that_the_plot_draws")),
    ("17 The tab Settings has all values, those that were changed first", (
        "window/test_settings_view.py::test_tab_shows_settings_of_the_run_and_copies_them",
        "window/test_settings_view.py::test_changed_values_come_first_with_their_defaults_and_secrets_are_hidden")),
    ("18 A card says why a run failed, and what to press", (
        "window/test_over_the_plots.py::test_card_offers_half_the_batch_and_takes_no_room",
        "unit/test_failures.py::test_cause_is_told_in_words",
        "unit/test_failures.py::test_full_device_says_how_full_it_was")),
    ("19 A pressed button keeps the focus; a stop that loses much asks", (
        "window/test_run_buttons.py::test_buttons_name_what_they_do_and_keep_the_focus_while_disabled",
        "window/test_run_buttons.py::test_stop_of_a_run_that_was_not_saved_for_long_asks")),
    ("20 A screen reader is told state, verdict and problems", (
        "window/test_keyboard.py::test_names_say_state_verdict_and_problems",
        "window/test_keyboard.py::test_state_verdict_and_messages_are_announced_to_a_reader_alone",
        "window/test_keyboard.py::test_plot_describes_its_curves")),
    ("21 Text has the size of the desktop's, or the user's", (
        "window/test_theme.py::test_keys_change_size_next_window_keeps_it_and_font_of_desktop_enlarges_all_text",)),
    ("22 900 pixels suffice", (
        "window/test_dock_layout.py::test_narrow_window_clips_nothing_and_has_its_runs_behind_a_tab_and_whole_devices",)),
    ("23 A menu has all actions with their keys, the documents and About", (
        "window/test_menu_bar.py::test_menus_view_and_keys_of_a_window_without_runs",
        "window/test_menu_bar.py::test_help_names_version_licences_and_folders_and_has_the_documents")),
    ("24 Who was away is told what ended", (
        "window/test_missed.py::test_what_ended_while_window_was_closed_is_told_once",
        "window/test_run_buttons.py::test_end_of_the_shown_run_is_reported_and_in_the_heading")),
    ("25 This machine is one key away, with its last hour", (
        "window/test_run.py::test_entry_and_escape_lead_from_run_to_machine",
        "window/test_panels.py::test_live_history_keeps_last_hour")),
    ("26 Memory that is not released is explained once, with commands to copy", (
        "window/test_memory_tab.py::test_unexplained_memory_is_one_sentence_and_steps_name_devices_and_processes",
        "window/test_memory_tab.py::test_verdict_message_and_what_to_do_of_memory_that_is_held_unexplained_or_not_judged")),
    ("27 Curves, pictures, tables and models leave the window", (
        "window/test_exporting.py::test_measurements_report_and_event_file_are_those_of_the_commands",
        "window/test_exporting.py::test_table_of_runs_and_pictures_are_written",
        "window/test_exporting.py::test_table_of_runs_and_pictures_are_written",
        "window/test_exporting.py::test_menu_of_a_plot_copies_its_values_and_a_model_is_exported_in_background",
        "window/test_exporting.py::test_menu_of_a_plot_copies_its_values_and_a_model_is_exported_in_background")),
    ("28 Messages move nothing", (
        "window/test_over_the_plots.py::test_message_lies_below_the_plots_and_moves_nothing_else",
        "window/test_over_the_plots.py::test_messages_are_shown_one_at_a_time_with_their_count")),
    ("29 What is empty speaks of its own state", (
        "unit/test_empty_states.py::test_every_place_has_a_sentence_for_every_situation",
        "unit/test_empty_states.py::test_notices_are_told_in_the_past_tense_once_a_run_is_over")),
    ("30 A run took as long as it trained", (
        "unit/test_pause_button.py::test_neither_start_nor_pause_nor_watch_counts_as_training",
        "unit/test_run_header.py::test_watch_of_the_memory_has_its_own_seconds")),
    ("31 All settings are in one sheet with a search", (
        "window/test_settings_sheet.py::test_sheet_covers_the_plots_with_groups_side_by_side_and_follows_them",
        "window/test_settings_sheet.py::test_search_has_the_words_and_changed_settings_are_marked_and_reset",
        "window/test_settings_sheet.py::test_search_has_the_words_and_changed_settings_are_marked_and_reset")),
    ("32 The memory of the host is in the line of the CPU devices; whether a model will fit is not estimated yet", (
        "window/test_device_list.py::test_line_of_cpu_devices_tells_load_and_host_memory",)),
    ("33 What would fail at once is known before the start", (
        "window/test_device_readings.py::test_start_is_not_offered_without_the_cuda_library",
        "unit/test_recipes.py::test_function_that_cannot_be_called_is_refused_with_its_line")),
    ("34 Plots share a cursor and a range; values follow the range", (
        "window/test_plots.py::test_position_of_the_mouse_is_marked_in_all_plots_of_one_run",
        "window/test_plots.py::test_values_moved_by_hand_stay_and_a_drag_selects_a_range_they_are_fitted_to",
        "window/test_plots.py::test_ticks_and_lines_are_at_round_values_where_there_is_room")),
    ("35 The search reaches the whole log", (
        "window/test_log.py::test_search_counts_and_reaches_the_whole_file",
        "window/test_log.py::test_earlier_and_later_lines_are_shown_part_by_part")),
    ("36 Tab and F6 follow the order of sight", (
        "window/test_keyboard.py::test_tab_follows_sight_f6_goes_from_card_to_card_and_find_to_the_field_of_the_card",
        "window/test_keyboard.py::test_whole_session_by_keyboard")),
    ("37 Texts, borders and marks have enough contrast, and targets enough size", (
        "window/test_theme.py::test_text_borders_marks_and_device_colours_have_enough_contrast",
        "window/test_theme.py::test_text_borders_marks_and_device_colours_have_enough_contrast",
        "window/test_dock_layout.py::test_widgets_have_names_of_their_own_and_targets_and_lists_are_large_enough")),
    ("38 CPU devices are one line beside GPUs; rows are whole; free, all or none are ticked at once", (
        "window/test_device_list.py::test_rows_are_dense_with_many_gpus_grow_with_the_font_and_are_not_cut",
        "window/test_device_list.py::test_cpu_devices_are_one_line_until_it_is_clicked",
        "window/test_device_list.py::test_rows_are_dense_with_many_gpus_grow_with_the_font_and_are_not_cut",
        "window/test_device_list.py::test_buttons_tick_free_all_and_none_but_one_mig_device_only",
        "window/test_plot_devices.py::test_machine_has_strips_of_what_there_is_on_one_axis_that_says_ago")),
    ("39 States differ in shape, too", (
        "window/test_run_buttons.py::test_states_of_one_colour_have_other_marks_in_list_and_header",)),
    ("40 The file dialog shows its icons and begins in the folder used last", (
        "window/test_file_dialog.py::test_dialog_begins_in_folder_used_last",
        "window/test_file_dialog.py::test_dialog_has_icons_on_tool_buttons_only_and_whole_sizes_and_dates")),
)
"""Number and promise, and its tests by file and name."""


@cache
def names_of_tests(file: str) -> frozenset[str]:
    """Return the names of the tests of a file that are not skipped for good."""
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not any("mark.skip(" in ast.unparse(each) or "xfail" in ast.unparse(each) for each in node.decorator_list)
    )


def test_every_promise_has_its_tests() -> None:
    assert [int(promise.split()[0]) for promise, _ in PROMISES] == list(range(1, 41))
    assert all(tests for _, tests in PROMISES)
    missing = {
        promise: each
        for promise, tests in PROMISES
        for each in tests
        if each.partition("::")[2] not in names_of_tests(each.partition("::")[0])
    }
    assert not missing
