//! Keys, edges, job data and documents.

use super::fields::{full_job, full_spec};
use super::whole_file::record;
use super::*;

#[test]
fn keys_are_held_replaced_released_and_go_with_their_job() {
    let mut tables = fresh();
    let (idem, unique) = (key(KeyKind::Idempotency, "idem"), key(KeyKind::Unique, "uniq"));
    let other = key(KeyKind::Unique, "idem");
    insert(&mut tables, &full_job(), &full_spec(), vec![(idem.clone(), at(5)), (unique.clone(), at(6))]);
    let holder = |seq, millis| Some(KeyHolder { seq: Seq(seq), expires_at: at(millis), memory: None });
    let all = [idem.clone(), other, unique.clone()];
    assert_eq!(tables.keyed(&all).unwrap(), [holder(77, 5), None, holder(77, 6)]);
    insert(&mut tables, &plain_job(78), &plain_spec(), vec![(idem.clone(), at(7))]);
    tables.remove(&[Seq(77)], at(0)).unwrap();
    assert_eq!(tables.keyed(&all).unwrap(), [holder(78, 7), None, None]);
    tables.release_keys(&[idem, unique]).unwrap();
    assert_eq!(tables.keyed(&all).unwrap(), [None, None, None]);
}

#[test]
fn removal_leaves_nothing_but_the_audit_trail() {
    let mut tables = fresh();
    insert(&mut tables, &full_job(), &full_spec(), vec![(key(KeyKind::Unique, "uniq"), at(5))]);
    tables.link(&[edge(77, 1, Need::After), edge(2, 77, Need::AfterAny)]).unwrap();
    tables.write_job_data(&[JobDataWrite::Put(data(JobDataKind::Result, "", 0, "x"))]).unwrap();
    tables.append(&mut [record(Some(id(77)))]).unwrap();
    tables.remove(&[Seq(77), Seq(500)], at(0)).unwrap();
    for table in ["jobs", "hot", "tags", "keys", "edges", "facets"] {
        let sql = format!("SELECT count(*) FROM {table}");
        let rows: i64 = tables.connection().query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
    assert_eq!(tables.records(&RecordQuery { limit: 9, ..RecordQuery::default() }).unwrap().len(), 1);
}

fn edge(dependency: i64, dependent: i64, need: Need) -> Edge {
    Edge { dependency: Seq(dependency), dependent: Seq(dependent), need }
}

#[test]
fn edges_are_found_from_both_sides_in_order() {
    let mut tables = fresh();
    let all = [
        edge(1, 2, Need::After),
        edge(1, 2, Need::AfterAny),
        edge(1, 3, Need::After),
        edge(2, 3, Need::AfterAny),
        edge(4, 2, Need::After),
    ];
    tables.link(&[all[4], all[2], all[1], all[0], all[3], all[0]]).unwrap();
    assert_eq!(tables.edges(&[Seq(2), Seq(1)], Side::Dependency).unwrap(), all[..4]);
    assert_eq!(tables.edges(&[Seq(2), Seq(2)], Side::Dependent).unwrap(), [all[0], all[1], all[4]]);
}

fn data(kind: JobDataKind, name: &str, number: u64, body: &str) -> JobData {
    JobData { seq: Seq(77), kind, name: name.into(), number, body: Arc::from(body.as_bytes()) }
}

#[test]
fn job_data_is_put_replaced_dropped_and_read_in_order() {
    let mut tables = fresh();
    let log = |name: &str, number: u64, body: &str| data(JobDataKind::Log, name, number, body);
    let all = [log("a", 2, "one"), log("a", 10, "two"), log("b", 1, ""), log("b", 3, "four")];
    let put = |data: &JobData| JobDataWrite::Put(data.clone());
    let drop = JobDataWrite::Drop { seq: Seq(77), kind: JobDataKind::Log, name: "c".into(), number: 0 };
    let mut writes = vec![put(&log("a", 10, "old")), put(&log("c", 0, "gone")), drop];
    writes.extend(all.iter().rev().map(put));
    writes.push(put(&data(JobDataKind::Attempt, "a", 2, "other")));
    tables.write_job_data(&writes).unwrap();
    let query = JobDataQuery { seq: Seq(77), kind: JobDataKind::Log, name: None, above: None, limit: 99 };
    assert_eq!(tables.job_data(query).unwrap(), all);
    assert_eq!(tables.job_data(JobDataQuery { limit: 3, ..query }).unwrap(), all[..3]);
    assert_eq!(tables.job_data(JobDataQuery { name: Some("b"), ..query }).unwrap(), all[2..]);
    assert_eq!(
        tables.job_data(JobDataQuery { above: Some(2), ..query }).unwrap(),
        [all[1].clone(), all[3].clone()]
    );
    tables.connection().execute("UPDATE facets SET body = x'00' WHERE number = 10", []).unwrap();
    assert!(matches!(tables.job_data(query), Err(StoreError::Damaged(_))));
}

#[test]
fn documents_move_the_configuration_only_if_they_are_part_of_it() {
    let mut tables = fresh();
    let document = |key: &str| Document { key: key.into(), body: key.as_bytes().to_vec() };
    tables.begin_write().unwrap();
    for kind in DocumentKind::ALL {
        tables.put_document(kind, "b", Some(b"old")).unwrap();
        for key in ["c", "b", "a"] {
            tables.put_document(kind, key, Some(key.as_bytes())).unwrap();
        }
        tables.put_document(kind, "c", None).unwrap();
        assert_eq!(tables.documents(kind).unwrap(), [document("a"), document("b")]);
        assert_eq!(tables.documents_in(kind, DocumentRange::from("b")).unwrap(), [document("b")]);
        assert_eq!(tables.documents_in(kind, DocumentRange::before("b", 9)).unwrap(), [document("a")]);
        assert_eq!(tables.documents_in(kind, DocumentRange::before("z", 1)).unwrap(), [document("a")]);
        assert_eq!(tables.document(kind, "b").unwrap(), Some(document("b")));
        assert_eq!(tables.document(kind, "c").unwrap(), None);
    }
    let kinds = DocumentKind::ALL.into_iter().filter(|kind| kind.is_configuration()).count() as u64;
    assert_eq!(tables.configuration_version().unwrap(), kinds * 5);
    tables.commit().unwrap();
    tables.begin_read().unwrap();
    assert_eq!(tables.configuration_version().unwrap(), kinds * 5);
    tables.end_read();
}
