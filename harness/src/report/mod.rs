//! Module `report`.
