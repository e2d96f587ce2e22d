//! The rules of the source tree that no compiler checks, as ordinary tests. Each lists every violation it finds.
//! A rule that is wrong is changed here, for everyone; exceptions are listed beside their rule, with a reason.

mod documents;
mod layers;
mod lexer;
mod model;
mod placement;
mod planted;
mod size;
mod tree;
mod words;

use tree::TREE;

/// Fails with one violation a line.
fn none_of(violations: &[String]) {
    assert!(violations.is_empty(), "{} violation(s):\n  {}", violations.len(), violations.join("\n  "));
}

#[test]
fn the_walk_sees_the_whole_tree() {
    // A rule that looks at nothing passes forever, so the walk must find files of every kind it is asked for.
    for path in ["Cargo.toml", "check", "crates/windlass/src/lib.rs", "crates/windlass/tests/it/tidy.rs"] {
        assert!(TREE.iter().any(|file| file.path == path), "the walk did not find {path}");
    }
    none_of(
        &TREE
            .iter()
            .filter(|file| file.path.starts_with("target/") || file.path.starts_with(".git/"))
            .map(|file| format!("{}: is not a source file", file.path))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn no_source_file_is_longer_than_500_lines() {
    none_of(&size::long_files(&TREE));
}

#[test]
fn no_folder_has_more_than_20_entries() {
    none_of(&size::large_folders(&TREE));
}

#[test]
fn no_function_is_longer_than_70_lines() {
    none_of(&size::long_functions(&TREE));
}

#[test]
fn no_chapter_of_the_engine_contract_has_more_than_seven_methods() {
    none_of(&size::long_chapters(&TREE));
}

#[test]
fn no_module_is_a_mod_rs() {
    none_of(&placement::mod_rs_files(&TREE));
}

#[test]
fn every_module_opens_with_its_responsibility() {
    none_of(&placement::modules_without_opening_doc(&TREE));
}

#[test]
fn every_library_module_has_a_place_in_the_layer_table() {
    none_of(&layers::unplaced_modules(&TREE));
}

#[test]
fn no_library_module_uses_a_layer_above_its_own() {
    none_of(&layers::upward_uses(&TREE));
}

#[test]
fn sql_is_written_only_in_the_engines() {
    none_of(&placement::stray_sql(&TREE));
}

#[test]
fn the_engine_folders_have_the_same_file_names() {
    none_of(&placement::unequal_engine_folders(&TREE));
}

#[test]
fn only_the_clock_reads_the_time() {
    none_of(&placement::stray_clock_reads(&TREE));
}

#[test]
fn tasks_of_requests_read_on_behalf_of_their_caller() {
    none_of(&placement::uncounted_tasks(&TREE));
}

#[test]
fn every_planted_fault_still_fits_the_code() {
    none_of(&planted::outdated_faults(&TREE));
}

#[test]
fn every_path_named_for_contributors_exists() {
    none_of(&documents::missing_paths(&TREE));
}

#[test]
fn the_architecture_page_has_at_most_2000_words() {
    none_of(&documents::long_architecture(&TREE));
}

#[test]
fn no_document_shows_lines_that_rustdoc_hides() {
    none_of(&documents::hidden_lines(&TREE));
}

#[test]
fn no_document_cites_a_rule_by_number() {
    none_of(&documents::numbered_rules(&TREE));
}

#[test]
fn no_text_holds_a_word_for_unfinished_work() {
    none_of(&documents::unfinished_work(&TREE));
}

#[test]
fn every_rule_of_the_model_is_named_by_a_test() {
    none_of(&model::rules_without_a_test(&TREE));
}

#[test]
fn every_rule_that_a_comment_names_is_in_the_model() {
    none_of(&model::unknown_rules(&TREE));
}

#[test]
fn no_text_uses_a_retired_word() {
    none_of(&words::retired_words(&TREE));
}
